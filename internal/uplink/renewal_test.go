package uplink

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/simnet"
	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/internal/testprocess"
)

// issuer is a manager that renews certificates, and does nothing else.
type issuer struct {
	groupv1.UnimplementedIdentityServiceServer
	network *simnet.Network
	ca      *identity.CA
	takes   time.Duration // to renew one
	renewed atomic.Int32
}

var alice = identity.ID{Role: identity.Member, Name: "alice"}

func (m *issuer) Renew(ctx context.Context, asked *groupv1.RenewRequest) (*groupv1.RenewResponse, error) {
	select {
	case <-time.After(m.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	public, err := identity.PublicKey(asked.GetCertificateRequest())
	if err != nil {
		return nil, err
	}
	certificate, err := m.ca.Issue(alice, public, 2)
	m.renewed.Add(1)
	return &groupv1.RenewResponse{Certificate: &groupv1.Certificate{Certificate: certificate, Authorities: m.ca.Authorities()}}, err
}

// startIssuer starts one until the bubble ends.
func startIssuer(t *testing.T) *issuer {
	t.Helper()
	ca, err := identity.NewCA(identity.DefaultTrustDomain, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	own, err := identity.NewSelfIssued(ca, identity.ID{Role: identity.Manager, Name: "manager"})
	if err != nil {
		t.Fatal(err)
	}
	m := &issuer{network: simnet.New(1), ca: ca}
	port, err := m.network.Host("manager").Listen(":7400")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(identity.TLS{TrustDomain: ca.TrustDomain, Source: own}.Server())))
	groupv1.RegisterIdentityServiceServer(server, m)
	go func() { _ = server.Serve(port) }()
	t.Cleanup(server.Stop)
	return m
}

// issue writes a certificate that was issued some time ago to a directory, and returns how to use it.
func (m *issuer) issue(t *testing.T, dir string, ago time.Duration) Config {
	t.Helper()
	m.ca.Now = func() time.Time { return time.Now().Add(-ago) }
	bundle, err := m.ca.IssueBundle(alice, 1)
	m.ca.Now = time.Now
	if err != nil {
		t.Fatal(err)
	}
	if err := identity.FilesIn(dir).Write(bundle); err != nil {
		t.Fatal(err)
	}
	return Config{Endpoints: []string{"manager:7400"}, TrustDomain: identity.DefaultTrustDomain, CredentialsDir: dir, Renew: true}
}

func (m *issuer) dial(t *testing.T, config Config, log *slog.Logger) *Uplink {
	t.Helper()
	host := m.network.Host("member")
	u, err := Dial(config, log, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		return host.Dial(ctx, "tcp", address)
	}))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// call makes a call that a manager answers, if only by refusing it.
func call(t *testing.T, u *Uplink) {
	t.Helper()
	_, err := groupv1.NewIdentityServiceClient(u).CreateToken(t.Context(), &groupv1.CreateTokenRequest{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("no manager has answered: %v", err)
	}
}

func issued(t *testing.T, source identity.Source) time.Time {
	t.Helper()
	current, err := source.Credentials()
	if err != nil {
		t.Fatal(err)
	}
	return current.Certificate.Leaf.NotBefore
}

// A process whose credentials cannot be written, for however long, goes on with those in memory. It says so, asks no more
// often than others, and writes them when there is room again.
func TestRenewalThatCannotBeWrittenCounts(t *testing.T) {
	disk := testdisk.Memory(t, "size=64k")
	dir, filler := filepath.Join(disk, "credentials"), filepath.Join(disk, "filler")
	synctest.Test(t, func(t *testing.T) {
		m := startIssuer(t)
		config := m.issue(t, dir, 40*time.Minute)
		old := issued(t, identity.FilesIn(dir))
		testdisk.Fill(t, filler)
		var said testprocess.Output
		u := m.dial(t, config, slog.New(slog.NewTextHandler(&said, nil)))
		defer u.Close()
		var lapse []time.Time
		u.TellUnwritten(func(_ error, lapses time.Time) { lapse = append(lapse, lapses) })
		time.Sleep(time.Minute)
		if n := m.renewed.Load(); n != 1 || strings.Count(said.String(), "in memory alone") != 1 {
			t.Errorf("within a minute the certificate is renewed %d times, and it says:\n%s", n, said.String())
		}

		time.Sleep(3 * time.Hour)
		u.transports.renew()
		call(t, u)
		written, err := identity.FilesIn(dir).Credentials()
		if n := m.renewed.Load(); n > 8 || time.Since(issued(t, u.files)) > time.Hour || !issued(t, identity.FilesIn(dir)).Equal(old) {
			t.Errorf("after three hours the certificate was renewed %d times, and is of %v", n, issued(t, u.files))
		}

		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err != nil || !slices.Equal(lapse, []time.Time{written.Expiry().Add(identity.ClockTolerance)}) {
			t.Errorf("what is written ends at %v, %v; it is told that it lapses at %v", written.Expiry(), err, lapse)
		}
		if !issued(t, identity.FilesIn(dir)).Equal(issued(t, u.files)) || strings.Count(said.String(), "is written") != 1 {
			t.Errorf("where there is room, the files are of %v, want %v: %s", issued(t, identity.FilesIn(dir)), issued(t, u.files), said.String())
		}
	})
}

// A command closes its uplink as soon as it has its answer. What it has begun to renew it still gets, if managers answer in time;
// nothing else makes it slower.
func TestShortUseRenews(t *testing.T) {
	for name, tt := range map[string]struct {
		issued, takes time.Duration // how long ago, and how long it takes to renew
		used          time.Duration // how long after the call the uplink is closed
		cut           bool          // no manager answers
		refused       bool          // nor is there one at all
		uncalled      bool          // nobody calls a manager but to renew, as in an upload to an address
		want          bool          // it is renewed
		within        time.Duration // Close returns
	}{
		"due":                   {issued: 40 * time.Minute, takes: 200 * time.Millisecond, want: true, within: time.Second},
		"not due":               {issued: 20 * time.Minute, takes: 200 * time.Millisecond},
		"a manager hangs":       {issued: 40 * time.Minute, takes: time.Hour, within: renewalGrace},
		"one that hangs longer": {issued: 40 * time.Minute, takes: time.Hour, used: renewalGrace},
		"no manager answers":    {issued: 40 * time.Minute, cut: true, within: renewalGrace},
		"without a call":        {issued: 40 * time.Minute, takes: 200 * time.Millisecond, uncalled: true, want: true, within: time.Second},
		"nor is it due":         {issued: 20 * time.Minute, uncalled: true},
		"nobody is there":       {issued: 40 * time.Minute, refused: true, uncalled: true, used: 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "credentials")
			synctest.Test(t, func(t *testing.T) {
				m := startIssuer(t)
				m.takes = tt.takes
				config := m.issue(t, dir, tt.issued)
				if tt.refused {
					config.Endpoints = []string{"manager:7401"}
				}
				u := m.dial(t, config, slog.New(slog.DiscardHandler))
				switch {
				case tt.cut:
					m.network.Cut("manager", "member")
					time.Sleep(time.Second)
				case !tt.uncalled:
					call(t, u)
				}
				time.Sleep(tt.used)
				began := time.Now()
				if err := u.Close(); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took > tt.within {
					t.Errorf("Close took %v, want %v at most", took, tt.within)
				}
				if renewed := time.Since(issued(t, identity.FilesIn(dir))) < 10*time.Minute; renewed != tt.want {
					t.Errorf("renewed: %t, want %t", renewed, tt.want)
				}
			})
		})
	}
}
