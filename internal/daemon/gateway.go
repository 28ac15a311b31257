package daemon

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"regexp"

	"google.golang.org/grpc/metadata"

	"github.com/groupcast/groupcast/internal/identity"
)

// clientCertificateHeader is where Envoy passes on the certificate that it was shown.
const clientCertificateHeader = "x-forwarded-client-cert"

// shownCertificate finds the certificate in the header: URL-encoded PEM, in quotes.
var shownCertificate = regexp.MustCompile(`(?:^|;)Cert="([^"]*)"`)

// ErrGatewayHeader says that a gateway does not show who calls through it.
var ErrGatewayHeader = errors.New("the gateway does not say who calls")

// BehindGateway returns who makes a call that a gateway passes on. The gateway is believed that it was shown a certificate, and no
// more: that must be good here, too. Without one it is the gateway itself that calls, as when it checks
// our health.
func BehindGateway(ctx context.Context, gateway identity.Peer, security identity.TLS) (identity.Peer, error) {
	shown := metadata.ValueFromIncomingContext(ctx, clientCertificateHeader)
	if len(shown) == 0 {
		return gateway, nil
	}
	certificate, err := parseShown(shown)
	if err != nil {
		return identity.Peer{}, err
	}
	caller, err := security.PeerFrom(certificate)
	if err != nil {
		return identity.Peer{}, fmt.Errorf("%w: %w", ErrGatewayHeader, err)
	}
	return caller, nil
}

// parseShown reads the header. If it has several elements, somebody before the gateway has written the first.
func parseShown(shown []string) (*x509.Certificate, error) {
	found := shownCertificate.FindAllStringSubmatch(shown[0], -1)
	if len(shown) != 1 || len(found) != 1 {
		return nil, fmt.Errorf("%w: want one certificate", ErrGatewayHeader)
	}
	text, err := url.PathUnescape(found[0][1])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrGatewayHeader, err)
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, fmt.Errorf("%w: no PEM", ErrGatewayHeader)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrGatewayHeader, err)
	}
	return certificate, nil
}
