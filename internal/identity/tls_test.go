package identity_test

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
)

var (
	manager = identity.ID{Role: identity.Manager, Name: "m1"}
	alice   = identity.ID{Role: identity.Member, Name: "alice"}
)

func TestHandshakes(t *testing.T) {
	ca, stranger := newCA(t, time.Now), newCA(t, time.Now)
	neighbour := certifiedBy(ca)
	neighbour.TrustDomain = "elsewhere.example"
	past := certifiedBy(ca)
	past.Now = ago(identity.CertificateLifetime + identity.ClockTolerance + time.Minute)
	justPast := certifiedBy(ca)
	justPast.Now = ago(identity.CertificateLifetime + identity.ClockTolerance - time.Minute)

	right := endpoint(t, ca, manager)
	for _, tt := range []struct {
		name                 string
		client, server       identity.TLS
		clientErr, serverErr string // which end finds the fault, and what it is
	}{
		{"right", endpoint(t, ca, alice), right, "", ""},
		{"server of another role", endpoint(t, ca, alice), endpoint(t, ca, identity.ID{Role: identity.Agent, Name: "a1"}), "peer is agent/a1: want a manager", ""},
		{"server of a foreign CA", endpoint(t, ca, alice), trusting(t, endpoint(t, stranger, manager), ca), "unknown authority", ""},
		{"client of a foreign CA", trusting(t, endpoint(t, stranger, alice), ca), right, "", "unknown authority"},
		{"server of another trust domain", endpoint(t, ca, alice), endpoint(t, neighbour, manager), "no identity of this trust domain", ""},
		{"client of another trust domain", endpoint(t, neighbour, alice), right, "no identity of this trust domain", ""},
		{"server's certificate expired", endpoint(t, ca, alice), endpoint(t, past, manager), "expired", ""},
		{"client's certificate expired", endpoint(t, past, alice), right, "", "expired"},
		{"expired within the tolerance", endpoint(t, justPast, alice), endpoint(t, justPast, manager), "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clientErr, serverErr := shake(t, tt.client.Client(identity.Manager), tt.server.Server())
			wantFault(t, "client", clientErr, tt.clientErr, tt.serverErr != "")
			wantFault(t, "server", serverErr, tt.serverErr, tt.clientErr != "")
		})
	}
}

// Machines whose clocks are an hour apart must work together, whichever clock is ahead: that of the
// issuer, of the one who shows a certificate, or of the one who checks it.
func TestClocksAnHourApart(t *testing.T) {
	for _, issuer := range []time.Duration{-time.Hour, 0, time.Hour} {
		for _, checker := range []time.Duration{-time.Hour, 0, time.Hour} {
			if difference := issuer - checker; difference > time.Hour || difference < -time.Hour {
				continue
			}
			ca := newCA(t, ago(-issuer))
			client, server := endpoint(t, ca, alice), endpoint(t, ca, manager)
			client.Now, server.Now = ago(-checker), ago(-checker)
			if clientErr, serverErr := shake(t, client.Client(identity.Manager), server.Server()); clientErr != nil || serverErr != nil {
				t.Errorf("issuer at %v, others at %v: client %v, server %v", issuer, checker, clientErr, serverErr)
			}
			first := identity.EnrollTLS(ca.Fingerprint(), ca.TrustDomain, ago(-checker))
			if clientErr, serverErr := shake(t, first, server.Server()); clientErr != nil || serverErr != nil {
				t.Errorf("issuer at %v, enrolling at %v: client %v, server %v", issuer, checker, clientErr, serverErr)
			}
		}
	}
}

func TestEnrollingChecksTheManager(t *testing.T) {
	ca, stranger := newCA(t, time.Now), newCA(t, time.Now)
	for _, tt := range []struct {
		name   string
		server identity.TLS
		want   string
	}{
		{"the manager", endpoint(t, ca, manager), ""},
		{"a manager of another CA", endpoint(t, stranger, manager), "server does not belong to the CA that the token names"},
		{"somebody else of the CA", endpoint(t, ca, alice), "peer is member/alice: want a manager"},
		{"a stranger who shows the CA's certificate too", withAuthority(endpoint(t, stranger, manager), ca), "unknown authority"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clientErr, serverErr := shake(t, identity.EnrollTLS(ca.Fingerprint(), ca.TrustDomain, time.Now), tt.server.Server())
			wantFault(t, "client", clientErr, tt.want, false)
			wantFault(t, "server", serverErr, "", tt.want != "")
		})
	}
}

// A client without a certificate gets through, and has no identity.
func TestPeers(t *testing.T) {
	ca := newCA(t, time.Now)
	server := endpoint(t, ca, manager).Server()
	var seen tls.ConnectionState
	check := server.VerifyConnection
	server.VerifyConnection = func(state tls.ConnectionState) error {
		seen = state
		return check(state)
	}
	if clientErr, serverErr := shake(t, identity.EnrollTLS(ca.Fingerprint(), ca.TrustDomain, time.Now), server); clientErr != nil || serverErr != nil {
		t.Fatal(clientErr, serverErr)
	}
	if peer, known := identity.PeerOf(seen, ca.TrustDomain); known {
		t.Errorf("a client without a certificate is %v", peer)
	}
	if clientErr, serverErr := shake(t, endpoint(t, ca, alice).Client(identity.Manager), server); clientErr != nil || serverErr != nil {
		t.Fatal(clientErr, serverErr)
	}
	if peer, known := identity.PeerOf(seen, ca.TrustDomain); !known || peer.ID != alice || peer.Stamp != 7 {
		t.Errorf("the peer is %v with stamp %d, want %s with 7", peer.ID, peer.Stamp, alice)
	}
	if peer, known := identity.PeerOf(seen, "elsewhere.example"); known {
		t.Errorf("in another trust domain, alice is %v", peer)
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	ca := newCA(t, time.Now)
	client := endpoint(t, ca, alice).Client(identity.Manager)
	client.MinVersion, client.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	_, serverErr := shake(t, client, endpoint(t, ca, manager).Server())
	wantFault(t, "server", serverErr, "unsupported versions", false)
}

// fixed is a source whose credentials never change.
type fixed struct{ credentials *identity.Credentials }

func (f fixed) Credentials() (*identity.Credentials, error) { return f.credentials, nil }

// endpoint has credentials that the CA issues now, with stamp 7.
func endpoint(t *testing.T, ca *identity.CA, id identity.ID) identity.TLS {
	t.Helper()
	return identity.TLS{TrustDomain: ca.TrustDomain, Source: fixed{issue(t, ca, id)}}
}

func issue(t *testing.T, ca *identity.CA, id identity.ID) *identity.Credentials {
	t.Helper()
	issued, err := ca.IssueCredentials(id, 7)
	if err != nil {
		t.Fatal(err)
	}
	return issued
}

// trusting makes an endpoint trust another CA than its own.
func trusting(t *testing.T, of identity.TLS, ca *identity.CA) identity.TLS {
	t.Helper()
	own, _ := of.Source.Credentials()
	own.Roots = issue(t, ca, alice).Roots
	return of
}

// withAuthority makes an endpoint show the certificate of a CA that did not issue its own.
func withAuthority(of identity.TLS, ca *identity.CA) identity.TLS {
	own, _ := of.Source.Credentials()
	own.Certificate.Certificate = append(own.Certificate.Certificate[:1:1], ca.Authorities()[0])
	return of
}

// certifiedBy returns the same CA, to be given another clock or trust domain.
func certifiedBy(ca *identity.CA) *identity.CA {
	same := *ca
	return &same
}

// ago returns a clock that is behind.
func ago(d time.Duration) func() time.Time {
	return func() time.Time { return time.Now().Add(-d) }
}

// shake connects a client with a server, and returns how each end fares. A client learns only when
// it reads that the server refused its certificate.
func shake(t *testing.T, client, server *tls.Config) (clientErr, serverErr error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	served := make(chan error, 1)
	go func() {
		plain, err := listener.Accept()
		if err != nil {
			served <- err
			return
		}
		defer plain.Close()
		plain.SetDeadline(time.Now().Add(10 * time.Second))
		_, err = tls.Server(plain, server).Write([]byte("!"))
		served <- err
	}()
	plain, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	plain.SetDeadline(time.Now().Add(10 * time.Second))
	_, clientErr = tls.Client(plain, client).Read(make([]byte, 1))
	plain.Close()
	return clientErr, <-served
}

// wantFault checks what an end reports. If the other end found the fault, this one may only see the connection end.
func wantFault(t *testing.T, end string, err error, want string, otherFails bool) {
	t.Helper()
	switch {
	case want == "" && otherFails:
	case want == "" && err != nil:
		t.Errorf("%s: %v", end, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: %v, want %q", end, err, want)
	}
}
