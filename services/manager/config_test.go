package manager_test

import (
	"strings"
	"testing"

	"github.com/groupcast/groupcast/services/manager"
)

// Managers know which of them founds a store of their own only if they share their CA through a Secret: otherwise they would wait for each
// other.
func TestClusterNeedsASharedCA(t *testing.T) {
	config := manager.Defaults()
	config.Store.Cluster = manager.ClusterConfig{Self: "m0.example", Seed: "all.example", First: "m0.example"}
	if err := config.Validate(); err == nil || !strings.Contains(err.Error(), "store.endpoints") {
		t.Errorf("without: %v, want one that names store.endpoints", err)
	}
	config.Kubernetes.CASecret = "groupcast-ca"
	if err := config.Validate(); err != nil {
		t.Errorf("with: %v", err)
	}
}

// The scheme of the endpoints says whether an etcd is spoken to with TLS, for all of them that of the first: files for TLS would not be used.
func TestEndpointsAgreeOnTLS(t *testing.T) {
	for _, tt := range []struct {
		endpoints []string
		caFile    string
		want      string
	}{
		{[]string{"https://a:2379", "https://b:2379"}, "ca.crt", ""},
		{[]string{"http://a:2379", "http://b:2379"}, "", ""},
		{[]string{"a:2379"}, "ca.crt", ""},
		{[]string{"http://a:2379"}, "ca.crt", "store.caFile is for TLS, and http://a:2379 is spoken to without"},
		{[]string{"HTTP://a:2379"}, "ca.crt", "store.caFile is for TLS, and HTTP://a:2379 is spoken to without"},
		{[]string{"https://a:2379", "http://b:2379"}, "", "store.endpoints has https://a:2379 and http://b:2379: want one scheme"},
	} {
		config := manager.Defaults()
		config.Store.Endpoints, config.Store.CAFile = tt.endpoints, tt.caFile
		if err := config.Validate(); (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v with %q: %v, want %q", tt.endpoints, tt.caFile, err, tt.want)
		}
	}
}

// A trust domain that cannot be in a certificate is refused before a CA is made for it.
func TestTrustDomainIsChecked(t *testing.T) {
	for _, text := range []string{"", "Bad Domain"} {
		config := manager.Defaults()
		config.Identity.TrustDomain = text
		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), "identity.trustDomain is ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The address that other managers are told is a host and a port, be the host of IPv4, of IPv6 or a name. Brackets that only IPv6 needs are
// taken away otherwise.
func TestAddressIsOfEitherFamily(t *testing.T) {
	for text, want := range map[string]string{
		"": "127.0.0.1:1", "manager-0:7400": "manager-0:7400", "10.0.0.7:7400": "10.0.0.7:7400",
		"[10.0.0.7]:7400": "10.0.0.7:7400", "[2001:db8::7]:7400": "[2001:db8::7]:7400",
	} {
		config := manager.Defaults()
		config.Address = text
		if err := config.Validate(); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if got := manager.Announced(config, "127.0.0.1:1"); got != want {
			t.Errorf("%q: others are told %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"2001:db8::7:7400", "manager-0"} {
		config := manager.Defaults()
		config.Address = text
		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
