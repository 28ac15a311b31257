package uplink

import (
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
)

// It is told that no manager renews credentials any more, if nobody else brings new ones.
func TestLapsedCredentialsAreTold(t *testing.T) {
	const longest = identity.CertificateLifetime + identity.ClockTolerance
	for _, tt := range []struct {
		issued time.Duration // how long ago
		config Config
		want   bool
	}{
		{longest + time.Minute, Config{Renew: true}, true},
		{longest - time.Minute, Config{Renew: true}, false},
		{longest + time.Minute, Config{}, false},
		{longest + time.Minute, Config{Renew: true, ServiceAccountTokenFile: "token"}, false},
	} {
		ca, err := identity.NewCA(identity.DefaultTrustDomain, func() time.Time { return time.Now().Add(-tt.issued) })
		if err != nil {
			t.Fatal(err)
		}
		bundle, err := ca.IssueBundle(identity.ID{Role: identity.Member, Name: "alice"}, 1)
		if err != nil {
			t.Fatal(err)
		}
		tt.config.CredentialsDir = t.TempDir()
		if err := identity.FilesIn(tt.config.CredentialsDir).Write(bundle); err != nil {
			t.Fatal(err)
		}
		if err := tt.config.Lapsed(); (err != nil) != tt.want || err != nil && !strings.Contains(err.Error(), "member/alice") {
			t.Errorf("issued %v ago, %+v: %v", tt.issued, tt.config, err)
		}
	}
	if err := (Config{Renew: true, CredentialsDir: t.TempDir()}).Lapsed(); err != nil {
		t.Errorf("without credentials: %v", err)
	}
}
