package manager_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/kubernetes"
	"github.com/groupcast/groupcast/internal/testprocess"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager"
	"github.com/groupcast/groupcast/services/manager/managertest"
	"github.com/groupcast/groupcast/services/manager/serviceaccount"
)

const audience = "groupcast/groupcast/groupcast"

// publisher is the member that pods of training/publisher are.
var publisher = serviceaccount.MemberName("training/publisher")

// podToken is a ServiceAccount's token, as the fake API server knows it: account is namespace/name.
func podToken(t *testing.T, account, pod string) string {
	t.Helper()
	claims, err := json.Marshal(map[string]any{"sub": "system:serviceaccount:" + strings.ReplaceAll(account, "/", ":"), "aud": []string{audience}, "kubernetes.io": map[string]any{"pod": map[string]any{"name": pod}}})
	if err != nil {
		t.Fatal(err)
	}
	return "eyJhbGciOiJSUzI1NiJ9." + base64.RawURLEncoding.EncodeToString(claims) + ".c2ln"
}

// review answers a TokenReview by what the token says of itself.
func review(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Spec struct {
			Token     string
			Audiences []string
		}
	}
	var claims struct{ Sub string }
	json.NewDecoder(r.Body).Decode(&asked)
	text, _ := base64.RawURLEncoding.DecodeString(strings.Split(asked.Spec.Token, ".")[1])
	json.Unmarshal(text, &claims)
	json.NewEncoder(w).Encode(map[string]any{"status": map[string]any{
		"authenticated": true, "audiences": asked.Spec.Audiences,
		"user": map[string]any{
			"username": claims.Sub,
			"extra": map[string]any{
				"authentication.kubernetes.io/pod-name":  []string{kubernetes.PodOf(asked.Spec.Token)},
				"authentication.kubernetes.io/node-name": []string{"node-7"},
			},
		},
	}})
}

// useAPIServer has managers ask a fake API server that reviews tokens.
func useAPIServer(t *testing.T) {
	t.Helper()
	askAt(t, review)
}

// askAt has managers ask a fake API server.
func askAt(t *testing.T, answer http.HandlerFunc) {
	t.Helper()
	server := httptest.NewTLSServer(answer)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	for name, text := range map[string][]byte{
		"ca.crt":    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		"namespace": []byte("groupcast"), "token": []byte("managers"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	client, err := kubernetes.New(server.URL, dir)
	if err != nil {
		t.Fatal(err)
	}
	manager.UseAPIServer(t, client)
}

// withAccounts starts a manager in Kubernetes, below a directory, that knows member accounts.
func withAccounts(t *testing.T, dir string, accounts ...string) *managertest.Manager {
	t.Helper()
	config := managertest.Config(dir)
	config.GRPC.Listen = testprocess.FreeAddress(t) // an address at which it may be started again
	config.Kubernetes.Audience, config.Kubernetes.MemberAccounts = audience, accounts
	return managertest.Run(t, config)
}

// asPod is the configuration of a pod, with its token mounted.
func asPod(t *testing.T, m *managertest.Manager, account, pod string) sdk.Config {
	t.Helper()
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte(podToken(t, account, pod)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return sdk.Config{
		Endpoints: []string{m.Address}, TrustDomain: m.Config.Identity.TrustDomain, CredentialsDir: filepath.Join(dir, "credentials"), Renew: true,
		ServiceAccountTokenFile: token, AuthorityFile: filepath.Join(m.Config.Identity.CADir, "ca.crt"),
	}
}

// inPod returns a client that was let in as a pod.
func inPod(t *testing.T, m *managertest.Manager, account, pod string) *sdk.Client {
	t.Helper()
	config := asPod(t, m, account, pod)
	if err := sdk.EnterPod(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	return dial(t, config)
}

func createGroups(t *testing.T, m *managertest.Manager, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := m.Client(t).CreateGroup(t.Context(), name, sdk.Policy{}); err != nil {
			t.Fatal(err)
		}
	}
}

func joinAs(t *testing.T, client *sdk.Client, group string) *sdk.Session {
	t.Helper()
	session, err := client.Join(t.Context(), sdk.Join{Group: group, Roles: []sdk.Role{sdk.Receive}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	return session
}

// wantPutOut waits until a session that is no longer allowed ends: it was expelled, or could not be kept.
func wantPutOut(t *testing.T, session *sdk.Session) {
	t.Helper()
	select {
	case <-session.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the session goes on")
	}
	var ended *sdk.SessionEnded
	if err := session.Err(); sdk.CodeOf(err) != sdk.Forbidden && (!errors.As(err, &ended) || ended.State != "expelled") {
		t.Errorf("the session ended with %v", err)
	}
}

func wantRefused(t *testing.T, config sdk.Config) {
	t.Helper()
	_, err := sdk.EnrollPod(t.Context(), config)
	if sdk.CodeOf(err) != sdk.Forbidden {
		t.Errorf("the pod was let in: %v", err)
	}
}

// Pods of an account are one member, which may join what the configuration says, and each has a session of its own.
func TestPodsOfAnAccountAreOneMember(t *testing.T) {
	useAPIServer(t)
	m := withAccounts(t, t.TempDir(), "training/publisher=models", "training/publisher=builds")
	createGroups(t, m, "models", "builds", "secrets")
	sessions := make([]*sdk.Session, 2)
	for i := range sessions {
		client := inPod(t, m, "training/publisher", fmt.Sprintf("publisher-%d", i))
		if id, err := client.Identity(); err != nil || id != "member/"+publisher {
			t.Errorf("pod %d is %s %v, want %s", i, id, err, publisher)
		}
		sessions[i] = joinAs(t, client, "models")
		joinAs(t, client, "builds")
		if _, err := client.Join(t.Context(), sdk.Join{Group: "secrets"}); sdk.CodeOf(err) != sdk.Forbidden {
			t.Errorf("pod %d in a group of others: %v", i, err)
		}
		if _, err := client.Join(t.Context(), sdk.Join{Group: "models", Name: "alice"}); sdk.CodeOf(err) != sdk.Forbidden {
			t.Errorf("pod %d as another member: %v", i, err)
		}
	}
	members, err := m.Client(t).Members(t.Context(), "models")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, member := range members {
		names = append(names, member.Name)
	}
	if want := []string{publisher + ".publisher-0", publisher + ".publisher-1"}; !slices.Equal(names, want) {
		t.Errorf("members are %q, want %q", names, want)
	}
	for i, session := range sessions {
		if err := session.Err(); err != nil {
			t.Errorf("pod %d was ended by another: %v", i, err)
		}
	}
}

// Nobody else is let in: another account, or one of the same name in another namespace.
func TestOtherAccountsAreRefused(t *testing.T) {
	useAPIServer(t)
	m := withAccounts(t, t.TempDir(), "training/publisher=*")
	for _, account := range []string{"training/default", "other/publisher", "groupcast/groupcast-agent"} {
		wantRefused(t, asPod(t, m, account, "p"))
	}
	if err := sdk.EnterPod(t.Context(), asPod(t, m, "training/publisher", "p")); err != nil {
		t.Error(err)
	}
	impostor := asPod(t, m, "training/publisher", "p")
	other, err := identity.OpenCA(t.TempDir(), identity.DefaultTrustDomain)
	if err != nil {
		t.Fatal(err)
	}
	impostor.AuthorityFile = filepath.Join(t.TempDir(), "ca.crt")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Authorities()[0]})
	if err := os.WriteFile(impostor.AuthorityFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sdk.EnrollPod(t.Context(), impostor); err == nil {
		t.Error("the token was shown to managers of another CA")
	}
}

// A pod of a revoked account is back only after an operator has let the member in.
func TestRevokedAccountStaysOut(t *testing.T) {
	useAPIServer(t)
	m := withAccounts(t, t.TempDir(), "training/publisher=models")
	createGroups(t, m, "models")
	session := joinAs(t, inPod(t, m, "training/publisher", "p-0"), "models")
	if err := m.Client(t).Revoke(t.Context(), "member", publisher); err != nil {
		t.Fatal(err)
	}
	wantPutOut(t, session)
	wantRefused(t, asPod(t, m, "training/publisher", "p-1"))
	m.Enroll(t, sdk.Token{Role: "member", Name: publisher, Groups: []string{"models"}})
	joinAs(t, inPod(t, m, "training/publisher", "p-2"), "models")
	if err := m.Client(t).Revoke(t.Context(), "member", publisher); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, asPod(t, m, "training/publisher", "p-3"))
}

// An operator lets in again the pods of identities that it has revoked, services and members alike, without a join token that somebody would
// have to carry there.
func TestRevokedPodsAreAdmitted(t *testing.T) {
	useAPIServer(t)
	config := managertest.Config(t.TempDir())
	config.Kubernetes.Audience, config.Kubernetes.AgentAccounts, config.Kubernetes.MemberAccounts = audience, []string{"groupcast/agent"}, []string{"training/publisher=models"}
	m := managertest.Run(t, config)
	for account, groups := range map[string][]string{"groupcast/agent": nil, "training/publisher": {"models"}} {
		pod := asPod(t, m, account, "p-0")
		id, err := sdk.EnrollPod(t.Context(), pod)
		if err != nil {
			t.Fatal(err)
		}
		role, name, _ := strings.Cut(id, "/")
		if err := m.Client(t).Revoke(t.Context(), role, name); err != nil {
			t.Fatal(err)
		}
		if _, err := sdk.EnrollPod(t.Context(), pod); err == nil || !strings.Contains(err.Error(), strings.TrimSuffix("groupcast identity admit "+id+" --group "+strings.Join(groups, ","), " --group ")) {
			t.Errorf("%s was revoked, and its pod is told %v", id, err)
		}
		if err := m.Client(t).Admit(t.Context(), role, name, groups...); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		if _, err := sdk.EnrollPod(t.Context(), pod); err != nil {
			t.Errorf("%s was admitted: %v", id, err)
		}
	}
}

// A changed configuration holds for pods that are there: they are put out of what they may no longer join. A pod whose account is no longer in
// the configuration is put out until it is.
func TestChangedAccountsHoldForPodsThatAreThere(t *testing.T) {
	useAPIServer(t)
	dir := t.TempDir()
	m := withAccounts(t, dir, "training/publisher=builds", "training/publisher=models")
	createGroups(t, m, "models", "builds", "tests")
	pod := asPod(t, m, "training/publisher", "p-0")
	if err := sdk.EnterPod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	restart := func(accounts ...string) *sdk.Client {
		m.Stop(t)
		config := managertest.Config(dir)
		config.GRPC.Listen = m.Address
		config.Kubernetes.Audience, config.Kubernetes.MemberAccounts = audience, accounts
		m = managertest.Run(t, config)
		return dial(t, pod)
	}
	client := dial(t, pod)
	models, builds := joinAs(t, client, "models"), joinAs(t, client, "builds")

	client = restart("training/publisher=models", "training/publisher=tests")
	wantPutOut(t, builds)
	joinAs(t, client, "tests")
	if _, err := client.Join(t.Context(), sdk.Join{Group: "builds"}); sdk.CodeOf(err) != sdk.Forbidden {
		t.Errorf("in a group that was taken away: %v", err)
	}
	if err := models.Err(); err != nil {
		t.Errorf("in a group that was left to it: %v", err)
	}

	client = restart("training/another=models")
	wantPutOut(t, models)
	if _, err := client.Members(t.Context(), "models"); sdk.CodeOf(err) != sdk.Forbidden {
		t.Errorf("without an account: %v", err)
	}
	wantRefused(t, pod)

	restart("training/publisher=models")
	if _, err := sdk.EnrollPod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	joinAs(t, dial(t, pod), "models")
}

// What a join token says of a member holds until a pod of its account is let in again.
func TestJoinTokenOfAnAccount(t *testing.T) {
	useAPIServer(t)
	m := withAccounts(t, t.TempDir(), "training/publisher=models")
	createGroups(t, m, "models", "builds")
	first := inPod(t, m, "training/publisher", "p-0")
	by := dial(t, m.Enroll(t, sdk.Token{Role: "member", Name: publisher, Groups: []string{"builds"}}))
	joinAs(t, by, "builds")
	if _, err := first.Join(t.Context(), sdk.Join{Group: "models"}); sdk.CodeOf(err) != sdk.Forbidden {
		t.Errorf("after the token: %v", err)
	}
	joinAs(t, inPod(t, m, "training/publisher", "p-1"), "models")
}

// A client in a pod shows its token again when its credentials have expired. Credentials that are good it keeps.
func TestPodEntersAgainWhenItHasTo(t *testing.T) {
	useAPIServer(t)
	m := withAccounts(t, t.TempDir(), "training/publisher=models")
	pod := asPod(t, m, "training/publisher", "p-0")
	files := identity.FilesIn(pod.CredentialsDir)
	write := func(age time.Duration) (certificate string) {
		ca, err := identity.NewCA(pod.TrustDomain, func() time.Time { return time.Now().Add(-age) })
		if err != nil {
			t.Fatal(err)
		}
		bundle, err := ca.IssueBundle(identity.ID{Role: identity.Member, Name: "old"}, 1)
		if err == nil {
			err = identity.FilesIn(pod.CredentialsDir).Write(bundle)
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(bundle.Certificate)
	}
	for age, replaced := range map[time.Duration]bool{0: false, 3 * time.Hour: true} {
		before := write(age)
		if err := sdk.EnterPod(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(files.Certificate)
		if err != nil || (string(after) != before) != replaced {
			t.Errorf("with credentials that are %v old: %v, want replaced %v", age, err, replaced)
		}
	}
	revoked := write(0)
	if err := pod.Discard(); err != nil {
		t.Fatal(err)
	}
	if err := sdk.EnterPod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(files.Certificate); err != nil || string(now) == revoked {
		t.Errorf("what was discarded is used again: %v", err)
	}
	// While it runs: the certificate is past half of its life, and of a CA that is gone, so that it cannot be renewed by itself.
	before := write(identity.CertificateLifetime * 3 / 4)
	dial(t, pod)
	for deadline := time.After(10 * time.Second); ; {
		if now, err := os.ReadFile(files.Certificate); err == nil && string(now) != before {
			break
		}
		select {
		case <-deadline:
			t.Fatal("the certificate was not renewed")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// All that is wrong with accounts is reported.
func TestMemberAccountsAreChecked(t *testing.T) {
	for entry, want := range map[string]string{
		"training/publisher=models": "",
		"training/publisher=*":      "",
		"training/publisher":        `"training/publisher" is not namespace/name=group`,
		"training/publisher=a b":    "is not namespace/name=group",
		"publisher=models":          `kubernetes.memberAccounts: "publisher" is not namespace/name`,
		"ns/agent=models":           "pods of ns/agent are no members",
	} {
		config := manager.Defaults()
		config.Kubernetes.AgentAccounts, config.Kubernetes.MemberAccounts = []string{"ns/agent"}, []string{entry}
		err := config.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", entry, err, want)
		}
	}
}

// A service in a pod of another role's ServiceAccount says so when it is let in.
func TestServiceWithAnAccountOfAnotherRole(t *testing.T) {
	useAPIServer(t)
	pod := asPod(t, withAccounts(t, t.TempDir(), "training/publisher=models"), "training/publisher", "agent-0")
	service := uplink.ServiceDefaults(t.TempDir())
	service.Managers, service.TrustDomain = pod.Endpoints, pod.TrustDomain
	service.ServiceAccountTokenFile, service.AuthorityFile = pod.ServiceAccountTokenFile, pod.AuthorityFile
	_, _, err := service.Connect(t.Context(), identity.Agent, slog.New(slog.DiscardHandler))
	if err == nil || uplink.Reason(err) != "TOKEN_ROLE" || !strings.Contains(err.Error(), "that of members, and this is no agent") {
		t.Errorf("%v, want that the ServiceAccount is of another role", err)
	}
}
