package manager_test

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// A service in a pod that no manager lets in any more, since all were away for longer than its certificate lived, or are of another CA by now,
// is let in again by its ServiceAccount while it runs. Nobody has to start it anew.
func TestServiceInAPodEntersAgain(t *testing.T) {
	useAPIServer(t)
	config := managertest.Config(t.TempDir())
	config.Kubernetes.Audience, config.Kubernetes.AgentAccounts = audience, []string{"groupcast/agent"}
	m := managertest.Run(t, config)
	t.Run("group", func(t *testing.T) { // they wait at once for the same check
		for name, age := range map[string]time.Duration{
			"certificate of long ago": 3 * time.Hour, "another CA": identity.CertificateLifetime * 3 / 4,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				pod := asPod(t, m, "groupcast/agent", "agent-0")
				service := uplink.ServiceDefaults(t.TempDir())
				service.Managers, service.TrustDomain = pod.Endpoints, pod.TrustDomain
				service.ServiceAccountTokenFile, service.AuthorityFile = pod.ServiceAccountTokenFile, pod.AuthorityFile
				managers, _, err := service.Connect(t.Context(), identity.Agent, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				defer managers.Close()
				ca, err := identity.NewCA(pod.TrustDomain, func() time.Time { return time.Now().Add(-age) })
				if err != nil {
					t.Fatal(err)
				}
				bundle, err := ca.IssueBundle(identity.ID{Role: identity.Agent, Name: "agent-0"}, 1)
				files := identity.FilesIn(service.CredentialsDir)
				if err == nil {
					err = files.Write(bundle)
				}
				if err != nil {
					t.Fatal(err)
				}
				for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
					if now, err := os.ReadFile(files.Certificate); err == nil && string(now) != string(bundle.Certificate) {
						return
					}
					if time.Now().After(deadline) {
						t.Fatal("the service was not let in again")
					}
				}
			})
		}
	})
}
