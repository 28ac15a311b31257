package identity

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"
)

// ClockTolerance is how far apart the clocks of two machines may be. A certificate is accepted for
// that long before and after its written life; revocation takes effect regardless of it.
const ClockTolerance = 65 * time.Minute

// Peer is the other end of a connection.
type Peer struct {
	ID    ID
	Stamp Stamp
}

// TLS makes configurations for connections within a trust domain. All are TLS
// 1.3, and both ends check the other's identity.
type TLS struct {
	TrustDomain string
	Source      Source
	Now         func() time.Time
}

// Server returns the configuration of a listener. A client without a certificate gets through the
// handshake, so that it can enroll: then PeerOf finds no peer, and authorization refuses everything
// but enrolment.
func (t TLS) Server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{"h2"},
		ClientAuth: tls.RequestClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			credentials, err := t.Source.Credentials()
			if err != nil {
				return nil, err
			}
			return &credentials.Certificate, nil
		},
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return nil
			}
			_, err := t.verify(state, x509.ExtKeyUsageClientAuth)
			return err
		},
	}
}

// Client returns the configuration for dialling a peer of the role.
func (t TLS) Client(role Role) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		NextProtos:         []string{"h2"},
		InsecureSkipVerify: true, // #nosec G402 -- replaced by VerifyConnection: peers are known by URI, not by DNS name
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			credentials, err := t.Source.Credentials()
			if err != nil {
				return nil, err
			}
			return &credentials.Certificate, nil
		},
		VerifyConnection: func(state tls.ConnectionState) error {
			peer, err := t.verify(state, x509.ExtKeyUsageServerAuth)
			if unknown := new(x509.UnknownAuthorityError); role == Manager && errors.As(err, unknown) {
				return fmt.Errorf("%w: if the managers have another CA now, enroll again, or restart the pod", err)
			}
			if err != nil {
				return err
			}
			if peer.ID.Role != role {
				return fmt.Errorf("peer is %s: want a %s", peer.ID, role)
			}
			return nil
		},
	}
}

// Listen returns the configuration of a listener for a protocol other
// than gRPC, all of whose clients must prove who they are.
func (t TLS) Listen(protocol string) *tls.Config {
	config := t.Server()
	config.NextProtos = []string{protocol}
	config.ClientAuth = tls.RequireAnyClientCert
	config.SessionTicketsDisabled = true // nothing may follow the handshake unasked
	config.DynamicRecordSizingDisabled = true
	return config
}

// Dial returns the configuration for dialling one peer with a protocol of its own.
func (t TLS) Dial(peer ID, protocol string) *tls.Config {
	config := t.Client(peer.Role)
	config.NextProtos = []string{protocol}
	config.DynamicRecordSizingDisabled = true
	config.VerifyConnection = func(state tls.ConnectionState) error {
		found, err := t.verify(state, x509.ExtKeyUsageServerAuth)
		switch {
		case err != nil:
			return err
		case found.ID != peer:
			return fmt.Errorf("peer is %s: want %s", found.ID, peer)
		case state.NegotiatedProtocol != protocol:
			return fmt.Errorf("peer speaks %q: want %q", state.NegotiatedProtocol, protocol)
		}
		return nil
	}
	return config
}

// EnrollTLS returns the configuration for the first connection: it has no credentials yet, but a
// token that names the CA by its fingerprint.
func EnrollTLS(ca Fingerprint, trustDomain string, now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		NextProtos:         []string{"h2"},
		InsecureSkipVerify: true, // #nosec G402 -- replaced by VerifyConnection: the CA is pinned by the token
		VerifyConnection: func(state tls.ConnectionState) error {
			for _, certificate := range state.PeerCertificates {
				if sha256.Sum256(certificate.Raw) != ca {
					continue
				}
				roots := x509.NewCertPool()
				roots.AddCert(certificate)
				peer, err := verifyChain(state.PeerCertificates, roots, trustDomain, x509.ExtKeyUsageServerAuth, now())
				if err == nil && peer.ID.Role != Manager {
					err = fmt.Errorf("peer is %s: want a manager", peer.ID)
				}
				return err
			}
			return errors.New("server does not belong to the CA that the token names")
		},
	}
}

// PeerOf returns the verified peer of a server's connection; ok is false if it showed no certificate.
func PeerOf(state tls.ConnectionState, trustDomain string) (peer Peer, ok bool) {
	if len(state.PeerCertificates) == 0 {
		return Peer{}, false
	}
	id, err := idOf(state.PeerCertificates[0], trustDomain)
	return Peer{ID: id, Stamp: stampOf(state.PeerCertificates[0])}, err == nil
}

// PeerFrom returns the identity in a certificate that a gateway says it was shown. The certificate
// must be valid as if it had been shown here.
func (t TLS) PeerFrom(certificate *x509.Certificate) (Peer, error) {
	credentials, err := t.Source.Credentials()
	if err != nil {
		return Peer{}, err
	}
	return verifyChain([]*x509.Certificate{certificate}, credentials.Roots, t.TrustDomain, x509.ExtKeyUsageClientAuth, t.now())
}

func (t TLS) verify(state tls.ConnectionState, usage x509.ExtKeyUsage) (Peer, error) {
	credentials, err := t.Source.Credentials()
	if err != nil {
		return Peer{}, err
	}
	return verifyChain(state.PeerCertificates, credentials.Roots, t.TrustDomain, usage, t.now())
}

func (t TLS) now() time.Time {
	if t.Now == nil {
		return time.Now()
	}
	return t.Now()
}

// verifyChain checks that the first certificate was issued by one of roots, is in force, and holds
// an identity of the trust domain.
func verifyChain(chain []*x509.Certificate, roots *x509.CertPool, trustDomain string, usage x509.ExtKeyUsage, now time.Time) (Peer, error) {
	if err := verifyIssued(chain, roots, usage, now); err != nil {
		return Peer{}, fmt.Errorf("check peer's certificate: %w", err)
	}
	id, err := idOf(chain[0], trustDomain)
	return Peer{ID: id, Stamp: stampOf(chain[0])}, err
}

// verifyIssued checks that the first certificate was issued by one of roots for a usage, and is in force.
func verifyIssued(chain []*x509.Certificate, roots *x509.CertPool, usage x509.ExtKeyUsage, now time.Time) error {
	leaf := chain[0]
	intermediates := x509.NewCertPool()
	for _, certificate := range chain[1:] {
		intermediates.AddCert(certificate)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{usage},
		CurrentTime: tolerated(now, leaf),
	})
	return err
}

// tolerated moves now into the certificate's life if it is outside by no more than the tolerance.
func tolerated(now time.Time, certificate *x509.Certificate) time.Time {
	switch {
	case now.Before(certificate.NotBefore) && !now.Add(ClockTolerance).Before(certificate.NotBefore):
		return certificate.NotBefore
	case now.After(certificate.NotAfter) && !now.Add(-ClockTolerance).After(certificate.NotAfter):
		return certificate.NotAfter
	}
	return now
}

// PlainTLS returns the configuration, from PEM files, for dialling a server that is not part of
// Groupcast, such as an etcd. Without a certificate file the client shows none. The authorities are those that the file has now.
func PlainTLS(authoritiesFile, certificateFile, keyFile string) (*tls.Config, error) {
	text, err := os.ReadFile(authoritiesFile)
	if err != nil {
		return nil, fmt.Errorf("read authorities: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read authorities: %s holds no certificate", authoritiesFile)
	}
	if certificateFile != "" {
		// The files are read at every handshake, as they may be renewed.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(certificateFile, keyFile)
			return &pair, err
		}
		if _, err := config.GetClientCertificate(nil); err != nil {
			return nil, fmt.Errorf("read certificate: %w", err)
		}
	}
	return config, nil
}
