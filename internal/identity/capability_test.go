package identity_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
)

const domain = "groupcast.local"

var issued = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// statement returns the statement that the tests sign.
func statement() identity.Capability {
	return identity.Capability{
		Holder: identity.ID{Role: identity.Agent, Name: "a1"}, Group: "models", Delivery: "00112233445566778899aabbccddeeff",
		Duty: identity.Relay, Issued: issued, Expires: issued.Add(identity.CapabilityLifetime),
	}
}

func credentialsOf(t testing.TB, ca *identity.CA, role identity.Role) *identity.Credentials {
	t.Helper()
	bundle, err := ca.IssueBundle(identity.ID{Role: role, Name: "m"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	held, err := bundle.Credentials()
	if err != nil {
		t.Fatal(err)
	}
	return held
}

func capabilityCA(t testing.TB, trustDomain string) *identity.CA {
	t.Helper()
	ca, err := identity.NewCA(trustDomain, func() time.Time { return issued })
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func sign(t testing.TB, by *identity.Credentials, c identity.Capability) []byte {
	t.Helper()
	token, err := identity.SignCapability(by, c)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// Managers' certificates from another issuer may have any of the curves that TLS 1.3 takes, as docs/operations.md says.
func TestManagersKeyMayHaveALargerCurve(t *testing.T) {
	ca := capabilityCA(t, domain)
	for _, curve := range []elliptic.Curve{elliptic.P256(), elliptic.P384(), elliptic.P521()} {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := ca.Issue(identity.ID{Role: identity.Manager, Name: "m"}, key.Public(), 1)
		if err != nil {
			t.Fatal(err)
		}
		manager := credentialsOf(t, ca, identity.Manager)
		manager.Certificate = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
		if _, err := identity.CheckCapability(sign(t, manager, statement()), manager.Roots, domain, issued.Add(time.Minute)); err != nil {
			t.Errorf("%s: %v", curve.Params().Name, err)
		}
	}
}

func TestCapabilityIsWhatWasSigned(t *testing.T) {
	manager := credentialsOf(t, capabilityCA(t, domain), identity.Manager)
	token := sign(t, manager, statement())
	got, err := identity.CheckCapability(token, manager.Roots, domain, issued.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	want := statement()
	if !got.Issued.Equal(want.Issued) || !got.Expires.Equal(want.Expires) {
		t.Errorf("in force from %v to %v, want %v to %v", got.Issued, got.Expires, want.Issued, want.Expires)
	}
	if err := got.Permits(want.Holder, want.Group, want.Delivery, want.Duty); err != nil {
		t.Error(err)
	}
	if len(token) > 1024 {
		t.Errorf("it has %d bytes: it travels with every connection", len(token))
	}
}

func TestCapabilityPermitsNothingElse(t *testing.T) {
	c := statement()
	for name, err := range map[string]error{
		"another holder":   c.Permits(identity.ID{Role: identity.Agent, Name: "a2"}, c.Group, c.Delivery, c.Duty),
		"another role":     c.Permits(identity.ID{Role: identity.Member, Name: "a1"}, c.Group, c.Delivery, c.Duty),
		"another group":    c.Permits(c.Holder, "secrets", c.Delivery, c.Duty),
		"another delivery": c.Permits(c.Holder, c.Group, "ff", c.Duty),
		"another duty":     c.Permits(c.Holder, c.Group, c.Delivery, identity.Send),
	} {
		if !errors.Is(err, identity.ErrCapability) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
}

func TestCapabilityTimes(t *testing.T) {
	manager := credentialsOf(t, capabilityCA(t, domain), identity.Manager)
	token := sign(t, manager, statement())
	for _, tt := range []struct {
		name string
		at   time.Time
		good bool
	}{
		{"long before", issued.Add(-time.Hour), false},
		{"just before the tolerance", issued.Add(-31 * time.Second), false},
		{"within the tolerance", issued.Add(-30 * time.Second), true},
		{"when all managers went right after the renewal was due", issued.Add(identity.CapabilityRenewal + 10*time.Minute), true},
		{"within the tolerance after", issued.Add(identity.CapabilityLifetime + 30*time.Second), true},
		{"after it", issued.Add(identity.CapabilityLifetime + 31*time.Second), false},
		{"the zero time", time.Time{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := identity.CheckCapability(token, manager.Roots, domain, tt.at)
			if good := err == nil; good != tt.good {
				t.Errorf("good: %v (%v), want %v", good, err, tt.good)
			}
		})
	}
}

func TestCapabilityOfAnotherSigner(t *testing.T) {
	ca, stranger := capabilityCA(t, domain), capabilityCA(t, domain)
	manager := credentialsOf(t, ca, identity.Manager)
	other := credentialsOf(t, ca, identity.Manager)
	neighbour := ca.TrustDomain
	ca.TrustDomain = "elsewhere.example"
	elsewhere := credentialsOf(t, ca, identity.Manager)
	ca.TrustDomain = neighbour
	past := *ca
	past.Now = func() time.Time {
		return issued.Add(-identity.CertificateLifetime - identity.ClockTolerance - time.Minute)
	}
	forged := *manager // the manager's certificate with another key
	forged.Certificate.PrivateKey = other.Certificate.PrivateKey
	for name, by := range map[string]*identity.Credentials{
		"a foreign CA":             credentialsOf(t, stranger, identity.Manager),
		"an agent":                 credentialsOf(t, ca, identity.Agent),
		"a member":                 credentialsOf(t, ca, identity.Member),
		"an operator":              credentialsOf(t, ca, identity.Operator),
		"another trust domain":     elsewhere,
		"a certificate long ended": credentialsOf(t, &past, identity.Manager),
		"another key":              &forged,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := identity.CheckCapability(sign(t, by, statement()), manager.Roots, domain, issued)
			if !errors.Is(err, identity.ErrCapability) {
				t.Errorf("%v, want it refused", err)
			}
		})
	}
	if _, err := identity.CheckCapability(sign(t, other, statement()), manager.Roots, domain, issued); err != nil {
		t.Errorf("another manager of the same CA: %v", err)
	}
}

// What the manager's key signs for other purposes is not a capability.
func TestCapabilityNeedsItsDomain(t *testing.T) {
	manager := credentialsOf(t, capabilityCA(t, domain), identity.Manager)
	token := sign(t, manager, statement())
	signature := bytes.LastIndex(token, manager.Certificate.Certificate[0]) + len(manager.Certificate.Certificate[0])
	digest := sha256.Sum256(token[:signature])
	plain, err := manager.Certificate.PrivateKey.(crypto.Signer).Sign(rand.Reader, digest[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	other := append(append(bytes.Clone(token[:signature]), 0, byte(len(plain))), plain...)
	if _, err := identity.CheckCapability(other, manager.Roots, domain, issued); !errors.Is(err, identity.ErrCapability) {
		t.Errorf("%v, want it refused", err)
	}
}

func TestTamperedCapability(t *testing.T) {
	manager := credentialsOf(t, capabilityCA(t, domain), identity.Manager)
	token := sign(t, manager, statement())
	for i := range token {
		for _, bit := range []byte{1, 0x80} {
			tampered := bytes.Clone(token)
			tampered[i] ^= bit
			if _, err := identity.CheckCapability(tampered, manager.Roots, domain, issued); err == nil {
				t.Fatalf("byte %d can be changed by %#x", i, bit)
			}
		}
		if _, err := identity.CheckCapability(token[:i], manager.Roots, domain, issued); err == nil {
			t.Fatalf("%d of %d bytes are enough", i, len(token))
		}
	}
	if _, err := identity.CheckCapability(append(bytes.Clone(token), 0), manager.Roots, domain, issued); err == nil {
		t.Error("a byte can be added")
	}
	if _, err := identity.CheckCapability(make([]byte, identity.MaxCapability+1), manager.Roots, domain, issued); !errors.Is(err, identity.ErrCapability) {
		t.Errorf("an oversized one: %v", err)
	}
}

// Any input is refused without a panic.
func FuzzCheckCapability(f *testing.F) {
	manager := credentialsOf(f, capabilityCA(f, domain), identity.Manager)
	stranger := credentialsOf(f, capabilityCA(f, domain), identity.Manager)
	f.Add([]byte(nil))
	f.Add([]byte("GCC1"))
	f.Add(sign(f, stranger, statement()))
	f.Fuzz(func(t *testing.T, token []byte) {
		if _, err := identity.CheckCapability(token, manager.Roots, domain, issued); !errors.Is(err, identity.ErrCapability) {
			t.Errorf("%v, want it refused", err)
		}
	})
}

// Whatever the URI of a certificate is, an identity is read from it only if the identity would be written exactly so.
func FuzzParseURI(f *testing.F) {
	for _, uri := range []string{
		"spiffe://groupcast.local/groupcast/agent/node-7", "spiffe://groupcast.local/groupcast/agent/node-7?x", "spiffe://groupcast.local/groupcast/agent/%6eode",
		"spiffe://groupcast.local/groupcast/agent/a/b", "spiffe://other/groupcast/agent/a", "spiffe://u:p@groupcast.local/groupcast/manager/managers", "agent/a",
	} {
		f.Add(uri)
	}
	f.Fuzz(func(t *testing.T, text string) {
		uri, err := url.Parse(text)
		if err != nil {
			return
		}
		id, err := identity.ParseURI(uri, identity.DefaultTrustDomain)
		if err != nil && !errors.Is(err, identity.ErrForeign) || err == nil && id.URI(identity.DefaultTrustDomain).String() != uri.String() {
			t.Fatalf("%q is read as %v, %v", text, id, err)
		}
	})
}
