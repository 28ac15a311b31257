package manager

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
)

// issuer is another issuer's CA.
type issuer struct {
	key  *ecdsa.PrivateKey
	root *x509.Certificate
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	made := &issuer{root: &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-100 * time.Hour), NotAfter: time.Now().Add(100 * time.Hour),
	}}
	var err error
	if made.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	raw, err := x509.CreateCertificate(rand.Reader, made.root, made.root, made.key.Public(), made.key)
	if err == nil {
		made.root, err = x509.ParseCertificate(raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// issue writes a manager's certificate, its key and the issuer's certificate into a directory. edit changes what is issued.
func (i *issuer) issue(t *testing.T, dir string, edit func(*x509.Certificate)) {
	t.Helper()
	self := identity.ID{Role: identity.Manager, Name: "managers"}
	made := &x509.Certificate{
		SerialNumber: big.NewInt(2), URIs: []*url.URL{self.URI(identity.DefaultTrustDomain)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	edit(made)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.CreateCertificate(rand.Reader, made, i.root, key.Public(), i.key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: raw}, "tls.key": {Type: "PRIVATE KEY", Bytes: secret}, "ca.crt": {Type: "CERTIFICATE", Bytes: i.root.Raw},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A certificate from another issuer that all others would refuse is refused by the manager itself: at its start with what is wrong, and later
// by going on with the one before and saying so, once.
func TestUselessCertificateOfAnotherIssuer(t *testing.T) {
	spoiled := map[string]struct {
		edit func(*x509.Certificate)
		want string
	}{
		"expired": {func(c *x509.Certificate) {
			c.NotAfter = time.Now().Add(-2 * time.Hour)
			c.NotBefore = c.NotAfter.Add(-time.Hour)
		}, "expired"},
		"not yet valid":   {func(c *x509.Certificate) { c.NotBefore = time.Now().Add(2 * time.Hour) }, "not yet valid"},
		"another domain":  {func(c *x509.Certificate) { c.URIs[0].Host = "elsewhere" }, "no identity of this trust domain"},
		"another role":    {func(c *x509.Certificate) { c.URIs[0].Path = "/groupcast/agent/a" }, "want a manager's"},
		"for servers":     {func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[:1] }, "as a client's"},
		"for clients":     {func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[1:] }, "as a server's"},
		"no URI":          {func(c *x509.Certificate) { c.URIs = nil }, "0 URIs"},
		"of another root": {nil, "unknown authority"},
	}
	for name, test := range spoiled {
		synctest.Test(t, func(t *testing.T) {
			authority, err := identity.NewCA(identity.DefaultTrustDomain, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			own, other := newIssuer(t), newIssuer(t)
			config := &Config{}
			config.Identity.TrustDomain, config.Identity.TLSDir = identity.DefaultTrustDomain, t.TempDir()
			dir := config.Identity.TLSDir
			spoil := func() {
				if test.edit != nil {
					own.issue(t, dir, test.edit)
					return
				}
				own.issue(t, dir, func(*x509.Certificate) {})
				root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.root.Raw})
				if err := os.WriteFile(filepath.Join(dir, "ca.crt"), root, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var said bytes.Buffer
			log := slog.New(slog.NewTextHandler(&said, nil))
			spoil()
			if _, err := ownCredentials(config, authority, log); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: at start: %v, want %q", name, err, test.want)
			}
			own.issue(t, dir, func(*x509.Certificate) {})
			source, err := ownCredentials(config, authority, log)
			if err != nil {
				t.Fatal(err)
			}
			before, err := source.Credentials()
			if err != nil {
				t.Fatal(err)
			}
			spoil()
			for range 3 {
				time.Sleep(2 * time.Second)
				if now, err := source.Credentials(); err != nil || now != before {
					t.Errorf("%s: the one before is not used any more: %v", name, err)
				}
			}
			if got := said.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, test.want) {
				t.Errorf("%s: it is said %s", name, got)
			}
			own.issue(t, dir, func(*x509.Certificate) {})
			time.Sleep(2 * time.Second)
			if now, err := source.Credentials(); err != nil || now == before || !strings.Contains(said.String(), "can be used again") {
				t.Errorf("%s: the next one is not used: %v", name, err)
			}
			time.Sleep(48 * time.Hour)
			if _, err := source.Credentials(); err != nil || !strings.Contains(said.String(), "was not renewed") {
				t.Errorf("%s: it has expired, and it is said %s: %v", name, said.String(), err)
			}
		})
	}
}
