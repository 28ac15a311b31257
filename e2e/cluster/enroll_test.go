//go:build cluster

package cluster

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/groupcast/groupcast/sdk"
)

// enrolled returns an HTTP client with the certificate of a fresh member.
func enrolled(t *testing.T, access string) *http.Client {
	t.Helper()
	client, err := sdk.Open(access)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	token, _, err := client.CreateToken(t.Context(), sdk.Token{Role: "member", Name: "mallory", Groups: []string{"models"}})
	if err != nil {
		t.Fatal(err)
	}
	config := sdk.Config{Endpoints: []string{""}, TrustDomain: sdk.DefaultTrustDomain, CredentialsDir: t.TempDir()}
	config.Endpoints[0] = nodeAddresses(t)[0] + ":30480"
	if _, err := sdk.Enroll(t.Context(), config, token); err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		content, err := os.ReadFile(filepath.Join(config.CredentialsDir, name))
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	return httpClient(t, read("tls.crt"), read("tls.key"), read("ca.crt"))
}
