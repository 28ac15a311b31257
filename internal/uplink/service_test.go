package uplink

import (
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
)

// A service that is not let in says what it lacks.
func TestServiceSaysHowItIsLetIn(t *testing.T) {
	config := ServiceDefaults(t.TempDir())
	_, _, err := config.Connect(t.Context(), identity.Replicator, slog.New(slog.DiscardHandler))
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "--role replicator") {
		t.Errorf("without credentials: %v", err)
	}
	ca, err := identity.NewCA(config.TrustDomain, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := ca.IssueBundle(identity.ID{Role: identity.Agent, Name: "a"}, 1)
	if err == nil {
		err = identity.FilesIn(config.CredentialsDir).Write(agent)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = config.Connect(t.Context(), identity.Replicator, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "are of agent/a: want those of a process with role replicator: remove them") {
		t.Errorf("with an agent's credentials: %v", err)
	}
}
