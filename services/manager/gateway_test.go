package manager_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"net/url"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

const shownHeader = "x-forwarded-client-cert"

// headerOf returns what Envoy writes of a certificate that it was shown.
func headerOf(pair *tls.Certificate) string {
	leaf := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
	return `Hash=ab;Cert="` + url.PathEscape(string(leaf)) + `";Subject="SERIALNUMBER=1";URI=spiffe://x`
}

func listGroups(t *testing.T, connection *grpc.ClientConn, headers ...string) error {
	t.Helper()
	ctx := t.Context()
	for _, header := range headers {
		ctx = metadata.AppendToOutgoingContext(ctx, shownHeader, header)
	}
	_, err := groupv1.NewGroupServiceClient(connection).ListGroups(ctx, &groupv1.ListGroupsRequest{})
	return err
}

var (
	gateway  = identity.ID{Role: identity.Gateway, Name: "gateway"}
	operator = identity.ID{Role: identity.Operator, Name: "olga"}
)

// "A gateway is believed what it was shown, and no more."
func TestGatewaySpeaksForWhoeverShowedItACertificate(t *testing.T) {
	m := managertest.Start(t)
	behind := connect(t, m.Address, issue(t, caOf(t, m), gateway))
	if err := listGroups(t, behind, headerOf(issue(t, caOf(t, m), operator))); err != nil {
		t.Errorf("an operator: %v", err)
	}
	stranger := managertest.Start(t)
	good := headerOf(issue(t, caOf(t, m), operator))
	for name, c := range map[string]struct {
		headers []string
		want    codes.Code
	}{
		"nobody":                        {nil, codes.PermissionDenied},
		"a member, where it may not":    {[]string{headerOf(issue(t, caOf(t, m), identity.ID{Role: identity.Member, Name: "alice"}))}, codes.PermissionDenied},
		"a manager":                     {[]string{headerOf(issue(t, caOf(t, m), identity.ID{Role: identity.Manager, Name: "manager-9"}))}, codes.PermissionDenied},
		"an agent":                      {[]string{headerOf(issue(t, caOf(t, m), identity.ID{Role: identity.Agent, Name: "a"}))}, codes.PermissionDenied},
		"a gateway":                     {[]string{headerOf(issue(t, caOf(t, m), gateway))}, codes.PermissionDenied},
		"of another CA":                 {[]string{headerOf(issue(t, caOf(t, stranger), operator))}, codes.Unauthenticated},
		"a URI without a certificate":   {[]string{"URI=" + operator.URI(identity.DefaultTrustDomain).String()}, codes.Unauthenticated},
		"noise":                         {[]string{`Cert="%zz"`}, codes.Unauthenticated},
		"two headers":                   {[]string{good, good}, codes.Unauthenticated},
		"two elements in one header":    {[]string{good + "," + good}, codes.Unauthenticated},
		"an element smuggled in quotes": {[]string{`Subject="a;Cert="x";` + good}, codes.Unauthenticated},
	} {
		if err := listGroups(t, behind, c.headers...); status.Code(err) != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// A caller that is no gateway can write into the header whatever it likes.
func TestHeaderOfOthersIsNotRead(t *testing.T) {
	m := managertest.Start(t)
	forged := headerOf(issue(t, caOf(t, m), operator))
	for _, role := range []identity.Role{identity.Member, identity.Agent, identity.Manager} {
		direct := connect(t, m.Address, issue(t, caOf(t, m), identity.ID{Role: role, Name: "mallory"}))
		if err := listGroups(t, direct, forged); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s with a forged header: %v", role, err)
		}
	}
	anonymous := connect(t, m.Address, nil)
	if err := listGroups(t, anonymous, forged); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a certificate: %v", err)
	}
}

// What would outlive the fall of a gateway cannot be had through it.
func TestNoIdentityIsMadeThroughAGateway(t *testing.T) {
	m := managertest.Start(t)
	behind := groupv1.NewIdentityServiceClient(connect(t, m.Address, issue(t, caOf(t, m), gateway)))
	for _, headers := range [][]string{{shownHeader, headerOf(issue(t, caOf(t, m), operator))}, nil} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), headers...)
		for name, call := range map[string]func(context.Context) error{
			"CreateToken": func(ctx context.Context) error {
				_, err := behind.CreateToken(ctx, &groupv1.CreateTokenRequest{Role: "operator", Name: "mallory"})
				return err
			},
			"Renew": func(ctx context.Context) error {
				_, err := behind.Renew(ctx, &groupv1.RenewRequest{CertificateRequest: request(t)})
				return err
			},
			"Enroll": func(ctx context.Context) error {
				_, err := behind.Enroll(ctx, &groupv1.EnrollRequest{Token: "x", CertificateRequest: request(t)})
				return err
			},
		} {
			if err := call(ctx); status.Code(err) != codes.PermissionDenied {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// "getting out": a revoked identity is refused through a gateway, too; and a gateway may ask for health.
func TestGatewayOfRevokedAndHealth(t *testing.T) {
	m := managertest.Start(t)
	connection := connect(t, m.Address, issue(t, caOf(t, m), gateway))
	if _, err := healthv1.NewHealthClient(connection).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}
	old := issue(t, caOf(t, m), operator)
	if err := m.Client(t).Revoke(t.Context(), "operator", operator.Name); err != nil {
		t.Fatal(err)
	}
	if err := listGroups(t, connection, headerOf(old)); status.Code(err) != codes.Unauthenticated {
		t.Errorf("revoked: %v", err)
	}
}
