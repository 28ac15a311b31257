package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// A member that comes back outlasts an election, and that all others come back at the same time, and says so once. A refusal for good
// ends it.
func TestWhoComesBackAsksUntilItMay(t *testing.T) {
	passing := []error{
		&sdk.Error{Code: sdk.Unavailable, Reason: "NO_LEADER", Message: "no manager leads"}, context.DeadlineExceeded, &sdk.Error{Code: sdk.NoRoom, Reason: "RATE_LIMITED"},
	}
	forbidden, full := &sdk.Error{Code: sdk.Forbidden}, &sdk.Error{Code: sdk.NoRoom, Reason: "GROUP_FULL"}
	for _, want := range []error{nil, forbidden, full} {
		synctest.Test(t, func(t *testing.T) {
			var said bytes.Buffer
			left := append(passing, want)
			err := (&app{stderr: &said}).insist(t.Context(), func() error {
				next := left[0]
				left = left[1:]
				return next
			})
			if !errors.Is(err, want) || len(left) > 0 {
				t.Errorf("%v with %d left, want %v", err, len(left), want)
			}
			if said.String() != "groupcast: no manager leads; trying again\n" {
				t.Errorf("it says %q", &said)
			}
		})
	}
}

// An interruption ends it as one; anything else that bounds it ends it with the reason why it could not go on.
func TestComingBackEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := &sdk.Error{Code: sdk.Unavailable}
		a, never := &app{stderr: io.Discard}, func() error { return away }
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := a.insist(ctx, never); !errors.Is(err, away) {
			t.Errorf("out of time it ends with %v, want %v", err, away)
		}
		ctx, interrupt := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, interrupt)
		if err := a.insist(ctx, never); !errors.Is(err, errInterrupted) {
			t.Errorf("interrupted it ends with %v", err)
		}
	})
}

// gate lets nobody through until it is open.
type gate struct{ open atomic.Bool }

func (g *gate) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if !g.open.Load() {
		return nil, errors.New("the gate is closed")
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// hearing calls a function when something is said.
type hearing map[string]func()

func (h hearing) Write(p []byte) (int, error) {
	for words, do := range h {
		if strings.Contains(string(p), words) {
			do()
		}
	}
	return len(p), nil
}

// A member whose session has expired, and that finds no manager as it joins again, joins when there is one.
func TestMemberIsBackWhenManagersAre(t *testing.T) {
	m := managertest.Start(t)
	if _, err := m.Client(t).CreateGroup(t.Context(), "models", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	config, err := managertest.ReadConfig(m.Access)
	if err != nil {
		t.Fatal(err)
	}
	way := new(gate)
	client, err := sdk.Dial(config, sdk.WithDialer(way))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	joined := false
	a := &app{stdout: io.Discard, timeout: time.Second, stderr: hearing{
		"trying again":     func() { way.open.Store(true) },
		"joined models as": func() { joined = true; interrupt() },
	}}
	p := &pull{join: sdk.Join{Group: "models", Name: "n1", Roles: []sdk.Role{sdk.Receive}}, into: t.TempDir(), output: new(streamsOut), joined: true}
	if err := a.pull(ctx, client, p); !errors.Is(err, errInterrupted) || !joined {
		t.Errorf("it ends with %v (joined: %v)", err, joined)
	}
}

// states yields a delivery again and again, and then an error if there is one.
func states(last error, all ...sdk.Delivery) iter.Seq2[sdk.Delivery, error] {
	return func(yield func(sdk.Delivery, error) bool) {
		for _, one := range all {
			if !yield(one, nil) {
				return
			}
		}
		if last != nil {
			yield(sdk.Delivery{}, last)
		}
	}
}

// A delivery goes on without its sender once agents have all of it: a sender whose session has expired learns how it ends. One that was
// expelled shows nothing more of it.
func TestDeliveryIsFollowedWithoutASession(t *testing.T) {
	runs, complete := sdk.Delivery{State: sdk.DeliveryRunning}, sdk.Delivery{State: sdk.DeliveryComplete}
	for state, want := range map[sdk.MemberState]sdk.DeliveryState{"expired": sdk.DeliveryComplete, "fenced": sdk.DeliveryRunning} {
		var said bytes.Buffer
		ended := &sdk.SessionEnded{State: state}
		last, err := lookOn("0123456789", states(ended, runs), states(nil, runs, complete), newProgress(&app{stderr: &said}))
		if isLost := want == sdk.DeliveryRunning; last.State != want || errors.Is(err, ended) != isLost || strings.Contains(said.String(), "delivery 01234567 is shown") == isLost {
			t.Errorf("%s: %s with %v, after %q", state, last.State, err, &said)
		}
	}
}

// A sender waits for receivers only while it is joined itself: in a group that it has meanwhile dropped out of, no number is enough.
func TestWhoIsThere(t *testing.T) {
	member := func(name string, incarnation uint64, roles ...sdk.Role) sdk.Member {
		return sdk.Member{Name: name, Incarnation: incarnation, Roles: roles}
	}
	self, n1, n2 := member("self", 2, sdk.Send, sdk.Receive), member("n1", 1, sdk.Receive), member("n2", 1, sdk.Send)
	g := gathering{self: self, receivers: make(map[string]bool)}
	for i, step := range []struct {
		event sdk.MemberEvent
		want  string
	}{
		{sdk.MemberEvent{Snapshot: []sdk.Member{n1, n2}}, "1 false"},
		{sdk.MemberEvent{Change: sdk.Added, Member: self}, "1 true"},
		{sdk.MemberEvent{Change: sdk.Updated, Member: member("n2", 1, sdk.Receive)}, "2 true"},
		{sdk.MemberEvent{Change: sdk.Removed, Member: n1}, "1 true"},
		{sdk.MemberEvent{Change: sdk.Added, Member: member("self", 3, sdk.Send)}, "1 false"},
		{sdk.MemberEvent{Snapshot: []sdk.Member{self}}, "0 true"},
		{sdk.MemberEvent{Change: sdk.Removed, Member: self}, "0 false"},
	} {
		g.note(step.event)
		if got := fmt.Sprint(len(g.receivers), g.joined); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
}

// Who waits for more receivers than come is told once who is there, and that there is a limit; who has enough of them before, is not.
func TestWhoWaitsForLongIsToldOfTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		p := &push{join: sdk.Join{Group: "models"}, wait: 3}
		g := gathering{receivers: map[string]bool{"node-b": true, "node-a": true}}
		stop := g.sayAfter(hintAfter, &said, p)
		time.Sleep(10 * hintAfter)
		synctest.Wait()
		stop()
		const want = "still waiting for receivers: 2 of 3 (node-a, node-b); more come by 'groupcast pull --group models', and --wait-limit bounds how long a push waits\n"
		if _, text, _ := strings.Cut(said.String(), ": "); text != want {
			t.Errorf("said %q, want %q", text, want)
		}
		said.Reset()
		stop = g.sayAfter(hintAfter, &said, p)
		time.Sleep(hintAfter / 2)
		stop()
		time.Sleep(hintAfter)
		if said.Len() > 0 {
			t.Errorf("said %q", said.String())
		}
	})
}
