package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/sdk"
)

// A configuration beside others gets a directory of its own for its credentials. One that another configuration uses, as that of the same
// name without an extension, is not replaced unless that is asked for.
func TestEnrollmentsLieBesideEachOther(t *testing.T) {
	dir := t.TempDir()
	// enrolled writes what an enrollment leaves; an earlier version named the directory otherwise.
	enrolled := func(file, credentials string) {
		ca, err := identity.NewCA(identity.DefaultTrustDomain, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		bundle, err := ca.IssueBundle(identity.ID{Role: identity.Member, Name: "alice"}, 1)
		if err != nil {
			t.Fatal(err)
		}
		config := sdk.Config{Endpoints: []string{"127.0.0.1:1"}, TrustDomain: identity.DefaultTrustDomain, CredentialsDir: credentials, Renew: true}
		if err := identity.FilesIn(filepath.Join(dir, credentials)).Write(bundle); err != nil {
			t.Fatal(err)
		}
		if err := config.Write(filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	enrolled("site.lab", "site.lab.credentials")
	enrolled("earlier.lab", "earlier.credentials")
	enrolled("one.yaml", "one.credentials")
	enrolled("gone.yaml", "gone.credentials")
	if err := os.Remove(filepath.Join(dir, "gone.yaml")); err != nil {
		t.Fatal(err)
	}
	pod := enrollment{config: sdk.Config{ServiceAccountTokenFile: "token"}}
	for _, tt := range []struct {
		file    string
		e       enrollment
		into    string
		refused string
	}{
		{file: "site.prod", into: "site.prod.credentials"},
		{file: "site.lab", refused: "site.lab has the identity member/alice"},
		{file: "site.lab", e: enrollment{replace: true}, into: "site.lab.credentials"},
		{file: "earlier.lab", e: enrollment{replace: true}, into: "earlier.credentials"},
		{file: "one.yml", refused: "one.credentials has the identity member/alice"},
		{file: "one", refused: "one.credentials has the identity member/alice"},
		{file: "gone.yaml", refused: "gone.credentials has the identity member/alice"},
		{file: "gone.yaml", e: enrollment{replace: true}, into: "gone.credentials"},
		{file: "gone.yaml", e: pod, into: "gone.credentials"},
	} {
		into, err := tt.e.mayGoInto(filepath.Join(dir, tt.file))
		if (err != nil) != (tt.refused != "") || err != nil && !strings.Contains(err.Error(), tt.refused) || err == nil && into != tt.into {
			t.Errorf("%s goes into %q, %v; want %q, %q", tt.file, into, err, tt.into, tt.refused)
		}
	}
}

// Who is interrupted where a token is asked for has not called it wrongly.
func TestInterruptedPromptIsNoWrongCall(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if err := (&app{stderr: io.Discard}).readToken(ctx, &enrollment{tokenFile: "-"}); statusOf(err) != exitInterrupted {
		t.Errorf("it ends with %v", err)
	}
}
