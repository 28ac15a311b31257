package daemon_test

import (
	"encoding/pem"
	"errors"
	"net/url"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/identity"
)

// shownBy returns what Envoy says when it is shown a certificate of a CA.
func shownBy(t *testing.T, ca *identity.CA, id identity.ID) string {
	t.Helper()
	held, err := ca.IssueCredentials(id, 1)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: held.Certificate.Certificate[0]})
	return `Hash=0123;Cert="` + url.PathEscape(string(text)) + `";URI=` + id.String()
}

func newCA(t *testing.T) *identity.CA {
	t.Helper()
	ca, err := identity.NewCA(identity.DefaultTrustDomain, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// "A gateway is believed only a whole certificate that is good here, too" (docs/security.md).
func TestGatewayIsBelievedCertificates(t *testing.T) {
	ca := newCA(t)
	own, err := identity.NewSelfIssued(ca, identity.ID{Role: identity.Gatherer, Name: "g"})
	if err != nil {
		t.Fatal(err)
	}
	security := identity.TLS{TrustDomain: identity.DefaultTrustDomain, Source: own}
	gateway := identity.Peer{ID: identity.ID{Role: identity.Gateway, Name: "gateway"}}
	olga := identity.ID{Role: identity.Operator, Name: "olga"}
	good := shownBy(t, ca, olga)
	for name, c := range map[string]struct {
		said []string
		want identity.ID // empty: the call is refused
	}{
		"nothing":                  {nil, gateway.ID},
		"a certificate":            {[]string{good}, olga},
		"two headers":              {[]string{good, good}, identity.ID{}},
		"two elements":             {[]string{good + "," + good}, identity.ID{}},
		"a name alone":             {[]string{"URI=" + olga.String()}, identity.ID{}},
		"no PEM":                   {[]string{`Cert="olga"`}, identity.ID{}},
		"no encoding":              {[]string{`Cert="%zz"`}, identity.ID{}},
		"no certificate":           {[]string{`Cert="` + url.PathEscape("-----BEGIN CERTIFICATE-----\nb2xnYQ==\n-----END CERTIFICATE-----\n") + `"`}, identity.ID{}},
		"a certificate of another": {[]string{shownBy(t, newCA(t), olga)}, identity.ID{}},
	} {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.MD{"x-forwarded-client-cert": c.said})
		caller, err := daemon.BehindGateway(ctx, gateway, security)
		if refused := errors.Is(err, daemon.ErrGatewayHeader); caller.ID != c.want || refused != (c.want == identity.ID{}) {
			t.Errorf("%s: %v, %v; want %v", name, caller.ID, err, c.want)
		}
	}
}
