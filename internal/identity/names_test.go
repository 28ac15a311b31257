package identity_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
)

func TestNamesAreDNSLabels(t *testing.T) {
	for _, good := range []string{"a", "7", "node-7", "0x", "a--b", strings.Repeat("x", 63)} {
		if err := identity.CheckName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "-", "-a", "a-", "A", "node_7", "node.7", "a/b", "..", "a b", " a", "a\n", "a\x00", "*",
		"knoten-ä", "\u202enode", "\xff", strings.Repeat("x", 64), strings.Repeat("x", 1<<20),
	} {
		err := identity.CheckName(bad)
		if err == nil {
			t.Errorf("%.80q is taken", bad)
		} else if !strings.Contains(err.Error(), "as in node-7") || len(err.Error()) > 500 {
			t.Errorf("%.80q: %v: want a short error with an example", bad, err)
		}
	}
}

// What is taken as a trust domain can be in certificates, and is known again; what is not could fail later, as in a URL, or never be known.
func TestTrustDomainsCanBeInCertificates(t *testing.T) {
	for _, good := range []string{"groupcast.local", "a", "site-7.example_1", "Example.org", strings.Repeat("x", 255)} {
		if err := identity.CheckTrustDomain(good); err != nil {
			t.Errorf("%.80q: %v", good, err)
		}
		ca, err := identity.NewCA(good, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		id := identity.ID{Role: identity.Agent, Name: "a"}
		bundle, err := ca.IssueBundle(id, 1)
		if err != nil {
			t.Fatalf("%.80q: %v", good, err)
		}
		credentials, err := bundle.Credentials()
		if err != nil || credentials.ID != id {
			t.Errorf("%.80q: the certificate is of %v: %v", good, credentials.ID, err)
		}
		if back, err := identity.ParseURI(id.URI(good), good); err != nil || back != id {
			t.Errorf("%.80q: %s became %s: %v", good, id, back, err)
		}
	}
	for _, bad := range []string{
		"", "Bad Domain", "a b", ".", ".a", "a.", "a..b", "a/b", "a:7", "a@b", "a?b", "a%20b", "ä.example", "a\n", "*.a", strings.Repeat("x", 256), strings.Repeat("x", 1<<20),
	} {
		err := identity.CheckTrustDomain(bad)
		if err == nil {
			t.Errorf("%.80q is taken", bad)
		} else if !strings.Contains(err.Error(), "as groupcast.local") || len(err.Error()) > 500 {
			t.Errorf("%.80q: %v: want a short error with an example", bad, err)
		}
	}
}

func TestURIs(t *testing.T) {
	for _, role := range identity.Roles {
		id := identity.ID{Role: role, Name: "node-7"}
		back, err := identity.ParseURI(id.URI("groupcast.local"), "groupcast.local")
		if err != nil || back != id {
			t.Errorf("%s became %s: %v", id, back, err)
		}
	}
	for _, bad := range []string{
		"spiffe://elsewhere.example/groupcast/member/alice",
		"spiffe://groupcast.local.evil.example/groupcast/member/alice",
		"spiffe://groupcast.local/other/member/alice",
		"spiffe://groupcast.local/groupcast/member",
		"spiffe://groupcast.local/groupcast/member/",
		"spiffe://groupcast.local/groupcast/root/alice",
		"spiffe://groupcast.local/groupcast/member/alice/operator",
		"spiffe://groupcast.local/groupcast/member/../operator/alice",
		"spiffe://groupcast.local/groupcast/member/Alice",
		"spiffe://groupcast.local/groupcast/member/%61lice",
		"spiffe://groupcast.local/groupcast/member/alice?role=operator",
		"spiffe://groupcast.local/groupcast/member/alice#operator",
		"spiffe://alice@groupcast.local/groupcast/member/alice",
		"spiffe://groupcast.local:443/groupcast/member/alice",
		"https://groupcast.local/groupcast/member/alice",
		"",
	} {
		uri, err := url.Parse(bad)
		if err != nil {
			t.Fatal(err)
		}
		if id, err := identity.ParseURI(uri, "groupcast.local"); !errors.Is(err, identity.ErrForeign) {
			t.Errorf("%s was read as %s: %v", bad, id, err)
		}
	}
}
