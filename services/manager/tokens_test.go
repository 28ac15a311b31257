package manager_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

func TestC30TokenIsUsedOnce(t *testing.T) {
	m := managertest.Start(t)
	text := createToken(t, m.Client(t), time.Minute)
	if _, err := enroll(t, m.Address, text, request(t)); err != nil {
		t.Fatalf("first use: %v", err)
	}
	_, err := enroll(t, m.Address, text, request(t))
	wantTokenRefused(t, err)
}

// A service that is given a token of another role says so, and leaves the token for the one that it is meant for.
func TestTokenOfAnotherRoleIsLeftAsItIs(t *testing.T) {
	m := managertest.Start(t)
	text, _, err := m.Client(t).CreateToken(t.Context(), sdk.Token{Role: "agent", Name: "a1"})
	if err != nil {
		t.Fatal(err)
	}
	service := uplink.ServiceDefaults(t.TempDir())
	service.Managers, service.JoinTokenFile = []string{m.Address}, filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(service.JoinTokenFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err = service.Connect(t.Context(), identity.Gatherer, slog.New(slog.DiscardHandler))
	if err == nil || uplink.Reason(err) != "TOKEN_ROLE" || !strings.Contains(err.Error(), "--role gatherer") {
		t.Fatalf("%v, want that the token is of another role", err)
	}
	managers, name, err := service.Connect(t.Context(), identity.Agent, slog.New(slog.DiscardHandler))
	if err != nil || name != "a1" {
		t.Fatal(name, err)
	}
	if err := managers.Close(); err != nil {
		t.Error(err)
	}
}

// An enrolment whose answer was lost can be asked for again with the same
// certificate request, and with no other.
func TestEnrolmentIsIdempotent(t *testing.T) {
	m := managertest.Start(t)
	token := createToken(t, m.Client(t), 0)
	first := request(t)
	for range 2 {
		if _, err := enroll(t, m.Address, token, first); err != nil {
			t.Fatalf("the same request: %v", err)
		}
	}
	_, err := enroll(t, m.Address, token, request(t))
	wantTokenRefused(t, err)
}

func TestC30TokenOfTwentyRacersLetsOneIn(t *testing.T) {
	m := managertest.Start(t)
	text := createToken(t, m.Client(t), time.Minute)
	var winners atomic.Int32
	var racing sync.WaitGroup
	for range 20 {
		racing.Go(func() {
			_, err := enroll(t, m.Address, text, request(t))
			if err == nil {
				winners.Add(1)
			} else if uplink.Reason(err) != "TOKEN_REFUSED" {
				t.Errorf("a loser got %v", err)
			}
		})
	}
	racing.Wait()
	if winners.Load() != 1 {
		t.Errorf("%d of 20 got in, want 1", winners.Load())
	}
}

func TestC30TokenIsNotGuessed(t *testing.T) {
	m := managertest.Start(t)
	text := createToken(t, m.Client(t), time.Minute)
	token, err := identity.ParseToken(text)
	if err != nil {
		t.Fatal(err)
	}
	other := identity.NewToken(token.CA)
	for name, guess := range map[string]string{
		"right id, wrong secret": identity.Token{ID: token.ID, Secret: other.Secret, CA: token.CA}.String(),
		"unknown id":             other.String(),
		"wrong id, right secret": identity.Token{ID: other.ID, Secret: token.Secret, CA: token.CA}.String(),
		"no token":               "let-me-in",
		"empty":                  "",
		"a path for an id":       strings.Replace(text, token.ID, "../identity/aaaa", 1),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := enroll(t, m.Address, guess, request(t))
			wantTokenRefused(t, err)
		})
	}
	if _, err := enroll(t, m.Address, text, request(t)); err != nil {
		t.Errorf("the guesses used the token up: %v", err)
	}
}

// A manager with another CA may be an impostor: it must not see the token.
func TestC30ForeignManagerNeverSeesTheToken(t *testing.T) {
	t.Parallel() // the client tries for some seconds
	impostor, err := identity.NewCA(identity.DefaultTrustDomain, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	address, heard := listenAs(t, impostor)
	real, err := identity.NewCA(identity.DefaultTrustDomain, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "credentials")
	config := sdk.Config{Endpoints: []string{address}, TrustDomain: identity.DefaultTrustDomain, CredentialsDir: dir}
	_, err = sdk.Enroll(t.Context(), config, identity.NewToken(real.Fingerprint()).String())
	if err == nil || !strings.Contains(err.Error(), "CA that the token names") {
		t.Errorf("error %v does not say that the token names another CA", err)
	}
	if said := <-heard; len(said) > 0 {
		t.Errorf("the impostor was told %d bytes", len(said))
	}
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("credentials were written")
	}
}

// listenAs takes TLS connections as a manager of the CA, and reports what it hears first.
func listenAs(t *testing.T, ca *identity.CA) (address string, heard <-chan []byte) {
	t.Helper()
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
		Certificates: []tls.Certificate{*issue(t, ca, identity.ID{Role: identity.Manager, Name: "m"})},
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	first := make(chan []byte, 1)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			buffer := make([]byte, 4096)
			n, _ := connection.Read(buffer)
			connection.Close()
			select {
			case first <- buffer[:n]:
			default:
			}
		}
	}()
	return listener.Addr().String(), first
}

// Whatever a request asks for, the certificate holds what the manager writes.
func TestC30RequestCannotChooseItsIdentity(t *testing.T) {
	m := managertest.Start(t)
	key := newKey(t, elliptic.P256())
	asCA, err := asn1.Marshal(struct{ IsCA bool }{true})
	if err != nil {
		t.Fatal(err)
	}
	greedy, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:        pkix.Name{CommonName: "operator/admin", Organization: []string{"system:masters"}, SerialNumber: "18446744073709551615"},
		DNSNames:       []string{"manager.groupcast.svc"},
		EmailAddresses: []string{"admin@example.com"},
		IPAddresses:    []net.IP{net.IPv4(10, 0, 0, 1)},
		URIs:           []*url.URL{identity.ID{Role: identity.Operator, Name: "admin"}.URI(identity.DefaultTrustDomain)},
		ExtraExtensions: []pkix.Extension{
			{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: asCA},
		},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := enroll(t, m.Address, createToken(t, m.Client(t), time.Minute), greedy)
	if err != nil {
		t.Fatal(err)
	}
	issued, err := x509.ParseCertificate(answer.GetCertificate().GetCertificate())
	if err != nil {
		t.Fatal(err)
	}
	alice := identity.ID{Role: identity.Member, Name: "alice"}
	if len(issued.URIs) != 1 || issued.URIs[0].String() != alice.URI(identity.DefaultTrustDomain).String() {
		t.Errorf("URIs %v, want %s alone", issued.URIs, alice)
	}
	if len(issued.DNSNames)+len(issued.IPAddresses)+len(issued.EmailAddresses) > 0 {
		t.Errorf("names %v %v %v, want none", issued.DNSNames, issued.IPAddresses, issued.EmailAddresses)
	}
	if issued.IsCA || issued.KeyUsage != x509.KeyUsageDigitalSignature {
		t.Errorf("CA %v, key usage %b: want a leaf that signs", issued.IsCA, issued.KeyUsage)
	}
	if issued.Subject.CommonName != alice.String() || len(issued.Subject.Organization) > 0 || issued.Subject.SerialNumber == "18446744073709551615" {
		t.Errorf("subject %v was taken from the request", issued.Subject)
	}
	if !key.PublicKey.Equal(issued.PublicKey) {
		t.Error("another key was certified")
	}
	if life := issued.NotAfter.Sub(issued.NotBefore); life > identity.CertificateLifetime+time.Minute {
		t.Errorf("lives for %v", life)
	}
}

// A request that cannot be certified is the caller's mistake, and costs it nothing.
func TestC30BadRequestKeepsTheToken(t *testing.T) {
	m := managertest.Start(t)
	text := createToken(t, m.Client(t), time.Minute)
	good := request(t)
	forged := bytes.Clone(good)
	forged[len(forged)-1] ^= 1
	p384, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, newKey(t, elliptic.P384()))
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{"empty": nil, "noise": []byte("noise"), "forged": forged, "P-384": p384} {
		if _, err := enroll(t, m.Address, text, bad); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v, want InvalidArgument", name, err)
		}
	}
	if _, err := enroll(t, m.Address, text, good); err != nil {
		t.Errorf("after the mistakes: %v", err)
	}
}

// Whoever reads the disk or the log finds nothing to enroll with.
func TestC30TokenIsKeptHashed(t *testing.T) {
	p := managertest.NewProcess(t, t.TempDir())
	p.Start(t)
	p.WaitServing(t)
	text := createToken(t, p.Client(t), time.Minute)
	token, err := identity.ParseToken(text)
	if err != nil {
		t.Fatal(err)
	}
	if files := filesWith(t, p.Dir, base64.StdEncoding.EncodeToString(token.Hash())); files == 0 {
		t.Error("the hash is nowhere on disk: does this test look in the right place?")
	}
	if files := filesWith(t, p.Dir, token.Secret); files > 0 {
		t.Errorf("the secret is in %d files", files)
	}
	if _, err := enroll(t, p.Address, text, request(t)); err != nil {
		t.Fatal(err)
	}
	_, err = enroll(t, p.Address, text, request(t))
	wantTokenRefused(t, err)
	for deadline := time.Now().Add(5 * time.Second); !strings.Contains(p.Said(), "join token refused"); {
		if time.Now().After(deadline) {
			t.Fatal("the log does not tell of the refusal")
		}
		runtime.Gosched() // the log comes through a pipe
	}
	if strings.Contains(p.Said(), token.Secret) {
		t.Error("the secret is in the log")
	}
}

func TestC30RevokedMemberNeedsANewToken(t *testing.T) {
	m := managertest.Start(t)
	operator := m.Client(t)
	if _, err := operator.CreateGroup(t.Context(), "models", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	membership := sdk.Token{Role: "member", Name: "alice", Groups: []string{"models"}}
	before := dial(t, m.Enroll(t, membership))
	session, err := before.Join(t.Context(), sdk.Join{Group: "models", Name: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	if err := operator.Revoke(t.Context(), "member", "alice"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-session.Done():
	case <-time.After(10 * time.Second):
		t.Error("the session goes on")
	}
	if _, err := before.Members(t.Context(), "models"); sdk.CodeOf(err) != sdk.Forbidden {
		t.Errorf("with the revoked certificate: %v", err)
	}
	after := dial(t, m.Enroll(t, membership))
	if _, err := after.Members(t.Context(), "models"); err != nil {
		t.Errorf("with a certificate issued since: %v", err)
	}
}

// The request that has used up a token lets in no identity that was revoked since, and neither does a token that was made before the
// revocation.
func TestC30TokensFromBeforeARevocationAreRefused(t *testing.T) {
	m := managertest.Start(t)
	used, unused, first := createToken(t, m.Client(t), 0), createToken(t, m.Client(t), 0), request(t)
	if _, err := enroll(t, m.Address, used, first); err != nil {
		t.Fatal(err)
	}
	if err := m.Client(t).Revoke(t.Context(), "member", "alice"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := enroll(t, m.Address, used, first)
		wantTokenRefused(t, err)
	}
	_, err := enroll(t, m.Address, unused, request(t))
	wantTokenRefused(t, err)
	if _, err := enroll(t, m.Address, createToken(t, m.Client(t), 0), request(t)); err != nil {
		t.Errorf("a token that was made since: %v", err)
	}
}

// A member may join what the token that was used last says: the request of an earlier token, sent again, does not change that.
func TestEarlierTokenGivesNoGroupsBack(t *testing.T) {
	m := managertest.Start(t)
	operator := m.Client(t)
	for _, name := range []string{"models", "logs"} {
		if _, err := operator.CreateGroup(t.Context(), name, sdk.Policy{}); err != nil {
			t.Fatal(err)
		}
	}
	earlier, first := createToken(t, operator, 0), request(t)
	if _, err := enroll(t, m.Address, earlier, first); err != nil {
		t.Fatal(err)
	}
	alice := dial(t, m.Enroll(t, sdk.Token{Role: "member", Name: "alice", Groups: []string{"logs"}}))
	_, err := enroll(t, m.Address, earlier, first)
	wantTokenRefused(t, err)
	if _, err := alice.Members(t.Context(), "models"); sdk.CodeOf(err) != sdk.Forbidden {
		t.Errorf("members of a group that she may not join any more: %v", err)
	}
	if _, err := alice.Members(t.Context(), "logs"); err != nil {
		t.Errorf("members of the group that she may join: %v", err)
	}
}

// A certificate that is issued while its identity is revoked is revoked with it.
func TestC30RenewalDoesNotOutliveRevocation(t *testing.T) {
	m := managertest.Start(t)
	operator := m.Client(t)
	for round := range 15 {
		id := identity.ID{Role: identity.Agent, Name: fmt.Sprintf("agent-%d", round)}
		connection := connect(t, m.Address, issue(t, caOf(t, m), id))
		var renewed [4]*tls.Certificate // the last certificate of each client that renews again and again
		var begun, ended sync.WaitGroup
		for i := range renewed {
			begun.Add(1)
			ended.Go(func() {
				renewed[i] = renew(t, connection)
				begun.Done()
				for next := renewed[i]; next != nil; next = renew(t, connection) {
					renewed[i] = next
				}
			})
		}
		begun.Wait()
		if err := operator.Revoke(t.Context(), string(id.Role), id.Name); err != nil {
			t.Fatal(err)
		}
		ended.Wait()
		for _, certificate := range renewed {
			err := call(t, connect(t, m.Address, certificate), "groupcast.group.v1.ManagerService", "GetStatus", nil)
			if outcome(err) != denied {
				t.Fatalf("round %d: a certificate of %s outlived its revocation: %v", round, id, err)
			}
		}
	}
}

func createToken(t *testing.T, client *sdk.Client, lifetime time.Duration) string {
	t.Helper()
	text, _, err := client.CreateToken(t.Context(), sdk.Token{Role: "member", Name: "alice", Groups: []string{"models"}, Lifetime: lifetime})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// renew returns a renewed certificate; nil when it is refused.
func renew(t *testing.T, connection *grpc.ClientConn) *tls.Certificate {
	key, err := identity.NewKey()
	if err != nil {
		t.Error(err)
		return nil
	}
	answer, err := groupv1.NewIdentityServiceClient(connection).Renew(t.Context(), &groupv1.RenewRequest{CertificateRequest: key.Request()})
	if err != nil {
		return nil
	}
	bundle, err := key.Certified(answer.GetCertificate().GetCertificate(), answer.GetCertificate().GetAuthorities())
	if err != nil {
		t.Error(err)
		return nil
	}
	issued, err := bundle.Credentials()
	if err != nil {
		t.Error(err)
		return nil
	}
	return &issued.Certificate
}

// enroll sends a token and a request as they are, without the checks of a good client.
func enroll(t *testing.T, address, token string, request []byte) (*groupv1.EnrollResponse, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return groupv1.NewIdentityServiceClient(connect(t, address, nil)).
		Enroll(ctx, &groupv1.EnrollRequest{Token: token, CertificateRequest: request})
}

func wantTokenRefused(t *testing.T, err error) {
	t.Helper()
	if status.Code(err) != codes.Unauthenticated || uplink.Reason(err) != "TOKEN_REFUSED" {
		t.Errorf("answer %v (%s), want TOKEN_REFUSED", err, uplink.Reason(err))
	}
}

func request(t *testing.T) []byte {
	t.Helper()
	key, err := identity.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return key.Request()
}

func newKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// filesWith counts the files below a directory that hold a text.
func filesWith(t *testing.T, dir, text string) (files int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(name)
		if bytes.Contains(content, []byte(text)) {
			files++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
