package cli

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/sdk"
)

// lapsed writes a configuration whose credentials no manager accepts any more.
func lapsed(t *testing.T) (file string) {
	t.Helper()
	ca, err := identity.NewCA(identity.DefaultTrustDomain, func() time.Time { return time.Now().Add(-24 * time.Hour) })
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := ca.IssueBundle(identity.ID{Role: identity.Member, Name: "alice"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := identity.FilesIn(filepath.Join(dir, "credentials")).Write(bundle); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "config.yaml")
	config := sdk.Config{Endpoints: []string{"127.0.0.1:1"}, TrustDomain: identity.DefaultTrustDomain, CredentialsDir: "credentials", Renew: true}
	if err := config.Write(file); err != nil {
		t.Fatal(err)
	}
	return file
}

// A user whose credentials have lapsed is told to enroll, and not that no manager answers.
func TestLapsedCredentials(t *testing.T) {
	file := lapsed(t)
	for _, command := range [][]string{{"status"}, {"gather", "clients", "--to", "archive"}} {
		var said strings.Builder
		status := Main(append([]string{"groupcast", "--config", file}, command...), &said, &said)
		if status != exitForbidden || !strings.Contains(said.String(), "the certificate of member/alice") || !strings.Contains(said.String(), "enroll anew") {
			t.Errorf("%v: %d, %s", command, status, said.String())
		}
	}
}

// A member whose credentials lapse while it hears no manager says that it waits for more than a manager.
func TestAwaySaysThatCredentialsHaveLapsed(t *testing.T) {
	config, err := sdk.ReadConfig(lapsed(t))
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	(&app{stderr: &said, as: config}).sayAway(time.Now())
	if !strings.Contains(said.String(), "nothing is heard of the managers since") || !strings.Contains(said.String(), "enroll anew") {
		t.Errorf("it said %q", said.String())
	}
	said.Reset()
	(&app{stderr: &said}).sayAway(time.Now())
	if !strings.Contains(said.String(), "what is under way goes on") {
		t.Errorf("it said %q", said.String())
	}
}

// A command whose renewed certificate cannot be written says where, why, and until when there is time.
func TestUnwrittenCertificateIsToldOf(t *testing.T) {
	var said strings.Builder
	why := fmt.Errorf("write credentials: %w", &fs.PathError{Op: "open", Path: "/srv/credentials/.ca.crt.17", Err: syscall.EROFS})
	(&app{stderr: &said}).unwritten("/srv/credentials")(why, time.Date(2026, 1, 1, 14, 30, 59, 0, time.Local))
	if want := "warning: the renewed certificate cannot be written to /srv/credentials: read-only file system; commands are refused from 14:30 on if it stays so\n"; said.String() != want {
		t.Errorf("it said %q, want %q", said.String(), want)
	}
}

// If nobody reads what is said about managers, they are heard all the same.
func TestAwayDoesNotWaitForItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := io.Pipe()
		begun := time.Now()
		(&app{stderr: to}).sayAway(begun)
		if waited := time.Since(begun); waited != awaySaid {
			t.Errorf("it waits for %v, want %v", waited, awaySaid)
		}
		if line, err := bufio.NewReader(from).ReadString('\n'); err != nil || !strings.HasPrefix(line, "nothing is heard of the managers since ") {
			t.Errorf("it said %q, %v", line, err)
		}
	})
}
