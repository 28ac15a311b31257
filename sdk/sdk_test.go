package sdk_test

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/groupcast/groupcast/sdk"
)

// A policy comes back as it was given.
func TestPoliciesAreReadAsWritten(t *testing.T) {
	client := open(t)
	for _, slow := range []sdk.SlowMember{{Action: sdk.Evict, LagBytes: 2, LagTime: 3 * time.Second}, {Action: sdk.Pace, FloorBytesPerSecond: 1}} {
		readAsWritten(t, client, sdk.Policy{
			AllowedRoles: []sdk.Role{sdk.Send, sdk.Receive}, ControlMode: sdk.EndToEnd, AckLevel: sdk.Relayed, SlowMember: slow,
			LatencyBound: 4 * time.Millisecond, Keep: time.Hour, Deadline: time.Minute,
			Limits: sdk.Limits{MaxMembers: 5, MaxDeliveries: 6, MaxObjectBytes: 7, MaxBytesPerSecond: 8192},
		})
	}
}

func readAsWritten(t *testing.T, client *sdk.Client, want sdk.Policy) {
	t.Helper()
	group, err := client.CreateGroup(t.Context(), "policies", want)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.DeleteGroup(t.Context(), "policies", false); err != nil {
		t.Error(err)
	}
	got := group.Policy
	if len(got.AllowedRoles) != 2 || got.ControlMode != want.ControlMode || got.AckLevel != want.AckLevel ||
		got.SlowMember != want.SlowMember || got.LatencyBound != want.LatencyBound || got.Limits != want.Limits ||
		got.Keep != want.Keep || got.Deadline != want.Deadline {
		t.Errorf("wrote %+v, read %+v", want, got)
	}
}

func TestWordsThatAreUnknown(t *testing.T) {
	client := open(t)
	for _, policy := range []sdk.Policy{
		{ControlMode: "sideways"}, {ControlMode: "unspecified"}, {AckLevel: "DURABLE!"}, {SlowMember: sdk.SlowMember{Action: "wait"}}, {AllowedRoles: []sdk.Role{"lead"}},
	} {
		if _, err := client.CreateGroup(t.Context(), "words", policy); sdk.CodeOf(err) != sdk.InvalidArgument || !strings.Contains(err.Error(), "is not one of") {
			t.Errorf("%+v: %v, want the choices", policy, err)
		}
	}
	if _, err := client.Join(t.Context(), sdk.Join{Group: "words", Name: "a", Roles: []sdk.Role{"lead"}}); sdk.CodeOf(err) != sdk.InvalidArgument {
		t.Errorf("role lead: %v", err)
	}
}

// A watch of something that does not exist ends with an error that a program can branch on.
func TestWatchesOfNothingEnd(t *testing.T) {
	client := open(t)
	if err := failure(client.WatchMembers(t.Context(), "nothing")); sdk.CodeOf(err) != sdk.NotFound || strings.Contains(err.Error(), "rpc error") {
		t.Errorf("members of nothing: %v", err)
	}
	if err := failure(client.WatchGroups(t.Context(), "nothing")); sdk.CodeOf(err) != sdk.NotFound {
		t.Errorf("group nothing: %v", err)
	}
}

// If there is nothing, there is no newest.
func TestNothingIsNewest(t *testing.T) {
	client := open(t)
	if d, err := client.NewestDelivery(t.Context(), ""); sdk.CodeOf(err) != sdk.NotFound {
		t.Errorf("delivery %s: %v", d.ID, err)
	}
	if r, err := client.NewestReplication(t.Context()); sdk.CodeOf(err) != sdk.NotFound {
		t.Errorf("replication %s: %v", r.ID, err)
	}
}

func TestWatchesEndWithTheirContext(t *testing.T) {
	client := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	steps := 0
	for _, err := range client.WatchGroups(ctx, "") {
		if err != nil {
			t.Error(err)
		}
		steps++
		cancel()
	}
	if steps == 0 {
		t.Error("the watch ended before it was canceled")
	}
}

// failure goes through a watch until it ends, and returns why.
func failure[E any](watch iter.Seq2[E, error]) error {
	for _, err := range watch {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestConfigurationsThatCannotBe(t *testing.T) {
	for _, tt := range []struct {
		config sdk.Config
		want   string
	}{
		{sdk.Config{}, "endpoints is empty"},
		{sdk.Config{}, "trustDomain is empty"},
		{sdk.Config{}, "credentialsDir is empty"},
		{sdk.Config{Endpoints: []string{"manager"}, TrustDomain: "t", CredentialsDir: "c"}, `"manager" is not host:port`},
		{sdk.Config{Endpoints: []string{"m:1"}, TrustDomain: "t", CredentialsDir: filepath.Join(t.TempDir(), "none")}, "tls.crt: no such file"},
	} {
		if _, err := sdk.Dial(tt.config); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.config, err, tt.want)
		}
	}
	if _, err := sdk.Enroll(t.Context(), sdk.Config{Endpoints: []string{"m:1"}, TrustDomain: "t", CredentialsDir: "c"}, "letmein"); sdk.CodeOf(err) != sdk.InvalidArgument {
		t.Errorf("a token that is none: %v", err)
	}
}

// An error of a context that gRPC reports still matches that context's error.
func TestContextsAreTold(t *testing.T) {
	interrupted, late := sdk.Reported(status.Error(codes.Canceled, "said")), sdk.Reported(status.Error(codes.DeadlineExceeded, "said"))
	if !errors.Is(interrupted, context.Canceled) || errors.Is(interrupted, context.DeadlineExceeded) {
		t.Errorf("%v is told as another", interrupted)
	}
	if !errors.Is(late, context.DeadlineExceeded) || errors.Is(late, context.Canceled) {
		t.Errorf("%v is told as another", late)
	}
}

// Whatever was closed says so when it is used, and begins nothing.
func TestWhatWasClosed(t *testing.T) {
	client := open(t)
	if _, err := client.CreateGroup(t.Context(), "closed", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	session, err := client.Join(t.Context(), sdk.Join{Group: "closed", Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantClosed := func(what string, err error) {
		if sdk.CodeOf(err) != sdk.Conflict || !strings.Contains(err.Error(), "left or closed") {
			t.Errorf("%s in a session that was left: %v", what, err)
		}
	}
	for _, err := range session.Receive(t.Context(), sdk.ReceiveOptions{Into: t.TempDir()}) {
		wantClosed("receive", err)
	}
	_, err = session.SendStream(t.Context(), strings.NewReader(""), sdk.SendOptions{})
	wantClosed("send", err)
	if err := client.DeleteGroup(t.Context(), "closed", false); err != nil {
		t.Error(err)
	}
	client.Close()
	if _, err := client.Groups(t.Context()); err == nil || err.Error() != "the client was closed" {
		t.Errorf("a client that was closed: %v", err)
	}
}

// A call to an address where nobody is ends in time, and says that no manager answers there.
func TestWhereNobodyAnswers(t *testing.T) {
	config, err := sdk.ReadConfig(adminFile)
	if err != nil {
		t.Fatal(err)
	}
	config.Endpoints = []string{"127.0.0.1:1"} // where nobody listens
	client, err := sdk.Dial(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = client.Groups(ctx)
	var reported *sdk.Error
	if !errors.As(err, &reported) || reported.Reason != sdk.NoManager || !strings.HasPrefix(err.Error(), "no manager answers at 127.0.0.1:1: ") {
		t.Errorf("%v, want where no manager answers", err)
	}
	if code := sdk.CodeOf(err); code != sdk.TimedOut && code != sdk.Unavailable {
		t.Errorf("code %v", code)
	}
}

// If looking at a tree is interrupted, or takes too long, the error says that, and not that something is wrong with the tree.
func TestSourcesThatAreGivenUp(t *testing.T) {
	dir := t.TempDir()
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	if _, err := sdk.OpenSource(interrupted, dir); sdk.CodeOf(err) != sdk.Interrupted {
		t.Errorf("interrupted: %v", err)
	}
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if _, err := sdk.OpenSource(late, dir); sdk.CodeOf(err) != sdk.TimedOut {
		t.Errorf("out of time: %v", err)
	}
	if _, err := sdk.OpenSource(t.Context(), filepath.Join(dir, "nothing")); sdk.CodeOf(err) != sdk.InvalidArgument {
		t.Errorf("of nothing: %v", err)
	}
}

// A manager that refuses something has answered.
func TestWhoRefusesHasAnswered(t *testing.T) {
	_, err := open(t).Group(t.Context(), "nothing")
	if strings.Contains(err.Error(), "no manager") {
		t.Errorf("%v, of a manager that answers", err)
	}
}

func open(t *testing.T) *sdk.Client {
	t.Helper()
	client, err := sdk.Open(adminFile)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// A replication that cannot be is refused with an error that a program can branch on.
func TestReplicationsOfNobody(t *testing.T) {
	client := open(t)
	spec := sdk.ReplicationSpec{SourceNode: "store", SourcePath: "/srv/disk.img", TargetPath: "/srv", Selector: "*"}
	if _, err := client.Replicate(t.Context(), spec); sdk.CodeOf(err) != sdk.Conflict || !strings.Contains(err.Error(), "no replicator") {
		t.Errorf("from nobody: %v", err)
	}
	spec.Slow = sdk.Evict
	if _, err := client.Replicate(t.Context(), spec); sdk.CodeOf(err) != sdk.InvalidArgument || !strings.Contains(err.Error(), "pace, detach") {
		t.Errorf("with a word of deliveries: %v", err)
	}
	if err := failure(client.WatchReplication(t.Context(), "00000000")); sdk.CodeOf(err) != sdk.NotFound || strings.Contains(err.Error(), "rpc error") {
		t.Errorf("a watch of nothing: %v", err)
	}
	if _, err := client.CancelReplication(t.Context(), "00000000"); sdk.CodeOf(err) != sdk.NotFound {
		t.Errorf("canceled nothing: %v", err)
	}
	if all, err := client.Replications(t.Context()); err != nil || all == nil || len(all) != 0 {
		t.Errorf("replications are %v, %v", all, err)
	}
	if all, err := client.Replicators(t.Context()); err != nil || all == nil || len(all) != 0 {
		t.Errorf("replicators are %v, %v", all, err)
	}
}
