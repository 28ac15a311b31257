package manager_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// issueFiles makes credentials that were issued some time ago, and writes them.
func issueFiles(t *testing.T, caDir string, id identity.ID, ago time.Duration, to *identity.Files) {
	t.Helper()
	ca, err := identity.OpenCA(caDir, identity.DefaultTrustDomain)
	if err != nil {
		t.Fatal(err)
	}
	ca.Now = func() time.Time { return time.Now().Add(-ago) }
	bundle, err := ca.IssueBundle(id, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := to.Write(bundle); err != nil {
		t.Fatal(err)
	}
}

// mountedConfig is of a manager that has its own certificate from files, which are yet to be written, and who it is.
func mountedConfig(t *testing.T) (config *manager.Config, mounted *identity.Files, self identity.ID) {
	t.Helper()
	config = managertest.Config(t.TempDir())
	config.Identity.TLSDir = filepath.Join(t.TempDir(), "mounted")
	return config, identity.FilesIn(config.Identity.TLSDir), identity.ID{Role: identity.Manager, Name: config.Name}
}

func expiry(t *testing.T, dir string) time.Time {
	t.Helper()
	credentials, err := identity.FilesIn(dir).Credentials()
	if err != nil {
		t.Fatal(err)
	}
	return credentials.Expiry()
}

// A client renews its certificate once half of its life has passed, and not before.
func TestCertificateIsRenewedAtHalfLife(t *testing.T) {
	m := managertest.Start(t)
	client := func(ago time.Duration) (dir string, written time.Time) {
		dir = filepath.Join(t.TempDir(), "credentials")
		issueFiles(t, m.Config.Identity.CADir, identity.ID{Role: identity.Operator, Name: "op"}, ago, identity.FilesIn(dir))
		written = expiry(t, dir)
		managertest.Dial(t, sdk.Config{Endpoints: []string{m.Address}, TrustDomain: sdk.DefaultTrustDomain, CredentialsDir: dir, Renew: true})
		return dir, written
	}
	freshDir, fresh := client(20 * time.Minute)
	for _, ago := range []time.Duration{40 * time.Minute, 100 * time.Minute} { // the second is past its written life, but tolerated
		dir, old := client(ago)
		eventually(t, 30*time.Second, "the certificate is renewed", func() bool { return expiry(t, dir).After(old.Add(30 * time.Minute)) })
	}
	if !expiry(t, freshDir).Equal(fresh) {
		t.Error("a certificate was renewed before half of its life")
	}
}

// A client that was killed while it replaced its files goes on with what is left, and writes them anew.
func TestInterruptedRenewalIsMadeGood(t *testing.T) {
	m := managertest.Start(t)
	files := identity.FilesIn(filepath.Join(t.TempDir(), "credentials"))
	op := identity.ID{Role: identity.Operator, Name: "op"}
	issueFiles(t, m.Config.Identity.CADir, op, time.Minute, files)
	old, err := os.ReadFile(files.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	issueFiles(t, m.Config.Identity.CADir, op, 0, files)
	if err := os.WriteFile(files.Certificate, old, 0o600); err != nil { // the former certificate was still there
		t.Fatal(err)
	}
	managertest.Dial(t, sdk.Config{Endpoints: []string{m.Address}, TrustDomain: sdk.DefaultTrustDomain, CredentialsDir: filepath.Dir(files.Key), Renew: true})
	eventually(t, 10*time.Second, "the files belong together again", func() bool {
		_, err := tls.LoadX509KeyPair(files.Certificate, files.Key)
		return err == nil
	})
}

// A manager with certificates from elsewhere shows a new one as soon as its files change, and connections stay. Its metrics say until when the
// certificate is valid.
func TestMountedCertificateIsReloaded(t *testing.T) {
	config, mounted, self := mountedConfig(t)
	issueFiles(t, config.Identity.CADir, self, time.Minute, mounted)
	m := managertest.Run(t, config)
	client := m.Client(t)
	if _, err := client.CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	session, err := client.Join(t.Context(), sdk.Join{Group: "g", Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	ends := func() bool {
		return gauge(t, m, "groupcast_manager_certificate_expiry_timestamp_seconds") == float64(expiry(t, config.Identity.TLSDir).Unix())
	}
	if !ends() || gauge(t, m, "groupcast_manager_certificate_issued_timestamp_seconds") >= float64(time.Now().Unix()) {
		t.Error("it is not said how long the certificate is valid")
	}
	before := shown(t, m.Address)
	issueFiles(t, config.Identity.CADir, self, 0, mounted)
	eventually(t, 30*time.Second, "the new certificate is shown", func() bool { return shown(t, m.Address) != before && ends() })
	if err := session.Leave(t.Context()); err != nil {
		t.Errorf("the session that was there before: %v", err)
	}
}

// A manager's certificate may be of another issuer than all other certificates. Whatever enrolls learns of both issuers, the first operator
// too, and what such a manager signs is believed.
func TestCertificateOfAnotherIssuer(t *testing.T) {
	config, mounted, self := mountedConfig(t)
	issueFiles(t, filepath.Join(t.TempDir(), "another-issuer"), self, 0, mounted)
	m := managertest.Run(t, config)
	if _, err := m.Client(t).CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	member := m.Enroll(t, sdk.Token{Role: "member", Name: "alice", Groups: []string{"g"}})
	client, err := sdk.Dial(member)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	session, err := client.Join(t.Context(), sdk.Join{Group: "g", Name: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Leave(t.Context()); err != nil {
		t.Error(err)
	}
	manager, err := mounted.Credentials()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	statement := identity.Capability{Issued: now, Expires: now.Add(time.Minute), Holder: identity.ID{Role: identity.Member, Name: "alice"}, Group: "g", Delivery: "d"}
	signed, err := identity.SignCapability(manager, statement)
	if err != nil {
		t.Fatal(err)
	}
	own, err := identity.FilesIn(member.CredentialsDir).Credentials()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := identity.CheckCapability(signed, own.Roots, identity.DefaultTrustDomain, now); err != nil {
		t.Errorf("what the manager signed: %v", err)
	}
}

// The first operator's certificate is renewed by the date: on a machine that was suspended no other clock knows that it is old.
func TestOperatorsCertificateIsRenewedByTheDate(t *testing.T) {
	m := managertest.Start(t)
	access, err := uplink.ReadConfig(m.Access)
	if err != nil {
		t.Fatal(err)
	}
	held := identity.FilesIn(access.CredentialsDir)
	issueFiles(t, m.Config.Identity.CADir, identity.ID{Role: identity.Operator, Name: "admin"}, identity.CertificateLifetime*2/3, held)
	old := expiry(t, access.CredentialsDir)
	eventually(t, 20*time.Second, "it is renewed", func() bool { return expiry(t, access.CredentialsDir).After(old) })
}

// When the other issuer's authority changes, the first operator's configuration follows: with it somebody mends the rest.
func TestOperatorKnowsTheNextIssuer(t *testing.T) {
	config, mounted, self := mountedConfig(t)
	issueFiles(t, filepath.Join(t.TempDir(), "first-issuer"), self, 0, mounted)
	m := managertest.Run(t, config)
	if _, err := m.Client(t).CreateGroup(t.Context(), "first", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	before := shown(t, m.Address)
	issueFiles(t, filepath.Join(t.TempDir(), "next-issuer"), self, 0, mounted)
	eventually(t, 30*time.Second, "the next certificate is shown", func() bool { return shown(t, m.Address) != before })
	eventually(t, 30*time.Second, "the operator's configuration knows the next issuer", func() bool {
		client, err := sdk.Open(m.Access)
		if err != nil {
			return false
		}
		defer client.Close()
		_, err = client.CreateGroup(t.Context(), "next", sdk.Policy{})
		return err == nil
	})
}

// Several managers may show one certificate of another issuer, as when a Secret is mounted into all their pods: it need not name any of them.
// What comes to a manager that does not lead is done by the leader, which believes that manager.
func TestManagersShareACertificate(t *testing.T) {
	mounted := identity.FilesIn(filepath.Join(t.TempDir(), "mounted"))
	issueFiles(t, filepath.Join(t.TempDir(), "another-issuer"), identity.ID{Role: identity.Manager, Name: "all-of-them"}, 0, mounted)
	c := managertest.StartCluster(t, 2, "--identity-tls-dir="+filepath.Dir(mounted.Key))
	c.Leader(t)
	for _, p := range c.Managers {
		if _, err := p.Client(t).CreateGroup(t.Context(), filepath.Base(p.Dir), sdk.Policy{}); err != nil {
			t.Errorf("by way of %s: %v", filepath.Base(p.Dir), err)
		}
	}
}

// shown returns the serial number of the certificate that a server shows.
func shown(t *testing.T, address string) string {
	t.Helper()
	connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	return connection.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// A CA's key that every user of the machine can read is used, but reported.
func TestExposedKeyIsTold(t *testing.T) {
	t.Parallel()
	p := managertest.NewProcess(t, t.TempDir())
	p.Start(t)
	p.WaitServing(t)
	const warning = "every user of this machine can read a private key"
	if strings.Contains(p.Said(), warning) {
		t.Errorf("its own key is told of: %s", p.Said())
	}
	p.Kill()
	if err := os.Chmod(filepath.Join(p.Dir, "ca", "ca.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	p.Start(t)
	p.WaitServing(t)
	eventually(t, 30*time.Second, "it is told of a key that everybody can read", func() bool { return strings.Contains(p.Said(), warning) })
}
