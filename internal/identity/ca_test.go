package identity_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
)

func TestCAIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	made := openCA(t, dir)
	if again := openCA(t, dir); again.Fingerprint() != made.Fingerprint() {
		t.Error("opening the CA again made another one")
	}
	info, err := os.Stat(filepath.Join(dir, "ca.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key has mode %v, want 0600: %v", info.Mode(), err)
	}
}

// A CA that cannot be read is never replaced: everything that it has certified would be lost.
func TestDamagedCAIsLeftAlone(t *testing.T) {
	for _, tt := range []struct {
		name    string
		damage  map[string]string // content by file; empty removes it
		wantErr string
	}{
		{"key missing", map[string]string{"ca.key": ""}, "ca.key"},
		{"certificate missing", map[string]string{"ca.crt": ""}, "ca.crt is missing"},
		{"key is noise", map[string]string{"ca.key": "noise"}, "ca.key: holds no PEM block"},
		{"certificate is noise", map[string]string{"ca.crt": "noise"}, "ca.crt: holds no certificate"},
		{"certificate is cut", map[string]string{"ca.crt": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"}, "ca.crt: parse certificate"},
		{"key is cut", map[string]string{"ca.key": "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n"}, "ca.key: parse key"},
		{"key of another CA", map[string]string{"ca.key": keyOfAnotherCA(t)}, "do not belong together"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "ca")
			openCA(t, dir)
			for name, content := range tt.damage {
				if content == "" {
					if err := os.Remove(filepath.Join(dir, name)); err != nil {
						t.Fatal(err)
					}
				} else {
					write(t, filepath.Join(dir, name), content)
				}
			}
			before := filesIn(t, dir)
			_, err := identity.OpenCA(dir, identity.DefaultTrustDomain)
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("error %v, want %q", err, tt.wantErr)
			}
			if after := filesIn(t, dir); after != before {
				t.Errorf("the directory was changed: it held\n%s\nand holds\n%s", before, after)
			}
		})
	}
}

func TestOnlyNamesAreCertified(t *testing.T) {
	ca := newCA(t, time.Now)
	for _, id := range []identity.ID{{}, {Role: "root", Name: "alice"}, {Role: identity.Member, Name: "Alice"}, {Role: identity.Member, Name: "a/b"}} {
		if _, err := ca.IssueBundle(id, 1); err == nil {
			t.Errorf("%s was certified", id)
		}
	}
}

// A gateway is known to its callers by names or by addresses.
func TestHostsAreNamesOrAddresses(t *testing.T) {
	credentials, err := newCA(t, time.Now).IssueCredentials(identity.ID{Role: identity.Gateway, Name: "gateway"}, 1, "envoy.example", "192.0.2.7", "2001:db8::7")
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{"envoy.example": true, "192.0.2.7": true, "2001:db8::7": true, "192.0.2.8": false, "example": false} {
		if err := credentials.Certificate.Leaf.VerifyHostname(host); (err == nil) != want {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func openCA(t *testing.T, dir string) *identity.CA {
	t.Helper()
	ca, err := identity.OpenCA(dir, identity.DefaultTrustDomain)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func newCA(t *testing.T, now func() time.Time) *identity.CA {
	t.Helper()
	ca, err := identity.NewCA(identity.DefaultTrustDomain, now)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func keyOfAnotherCA(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	openCA(t, dir)
	return read(t, filepath.Join(dir, "ca.key"))
}

// filesIn returns the names and contents of a directory's files.
func filesIn(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, entry := range entries {
		all.WriteString(entry.Name() + "\n" + read(t, filepath.Join(dir, entry.Name())))
	}
	return all.String()
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := identity.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
