package api

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"regexp"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/groupcast/groupcast/internal/identity"
)

// clientCertificateHeader is where Envoy says whose certificate it was shown.
const clientCertificateHeader = "x-forwarded-client-cert"

// shownCertificate finds the certificate in the header: URL-encoded PEM, in quotes.
var shownCertificate = regexp.MustCompile(`(?:^|;)Cert="([^"]*)"`)

var errGatewayHeader = errors.New("the gateway does not say who calls")

// behindGateway reports whether the peer is a gateway.
func (s *Server) behindGateway(ctx context.Context) bool {
	connection, _ := peer.FromContext(ctx)
	security, _ := connection.AuthInfo.(credentials.TLSInfo)
	at, known := identity.PeerOf(security.State, s.TrustDomain)
	return known && at.ID.Role == identity.Gateway
}

// identifyBehind returns who calls through a gateway. A gateway is believed what it was
// shown, and no more: the certificate must be one that is good here, too, and a member's
// or an operator's. Without one, it is the gateway itself that calls, as when it asks for our health.
func (s *Server) identifyBehind(ctx context.Context, gateway identity.Peer) (identity.Peer, error) {
	shown := metadata.ValueFromIncomingContext(ctx, clientCertificateHeader)
	if len(shown) == 0 {
		return gateway, nil
	}
	certificate, err := parseShown(shown)
	if err != nil {
		return identity.Peer{}, err
	}
	caller, err := s.Security.PeerFrom(certificate)
	switch {
	case err != nil:
		return identity.Peer{}, fmt.Errorf("%w: %w", errGatewayHeader, err)
	case caller.ID.Role != identity.Operator && caller.ID.Role != identity.Member:
		return identity.Peer{}, fmt.Errorf("%s through a gateway: %w", caller.ID, errDenied)
	}
	return caller, s.checkRevoked(caller)
}

// parseShown reads the header. Where there is more than one element, somebody before the gateway wrote the first.
func parseShown(shown []string) (*x509.Certificate, error) {
	found := shownCertificate.FindAllStringSubmatch(shown[0], -1)
	if len(shown) != 1 || len(found) != 1 {
		return nil, fmt.Errorf("%w: want one certificate", errGatewayHeader)
	}
	text, err := url.PathUnescape(found[0][1])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errGatewayHeader, err)
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, fmt.Errorf("%w: no PEM", errGatewayHeader)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errGatewayHeader, err)
	}
	return certificate, nil
}
