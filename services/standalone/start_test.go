package standalone

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/uplink"
)

// A server that is stopped while its parts get their identities has not failed.
func TestStopWhileItStarts(t *testing.T) {
	ca, err := identity.NewCA(identity.DefaultTrustDomain, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := ca.IssueBundle(identity.ID{Role: identity.Operator, Name: "admin"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	access := uplink.Config{Endpoints: []string{"127.0.0.1:1"}, TrustDomain: identity.DefaultTrustDomain, CredentialsDir: filepath.Join(t.TempDir(), "admin")}
	if err := identity.FilesIn(access.CredentialsDir).Write(bundle); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	err = part{id: identity.ID{Role: identity.Agent, Name: "agent-a"}}.start(ctx, daemon.Env{}, nil, access)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}
