package uplink

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/pause"
)

// reconnect bounds how long a broken connection waits before it is tried again, and how
// long one that was accepted may lead to nobody: a session has to find another manager in time.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.5, MaxDelay: 3 * time.Second},
	MinConnectTimeout: 3 * time.Second,
}

// Uplink is a connection to the managers.
type Uplink struct {
	*grpc.ClientConn
	transports *transports
	files      *identity.Files
	security   identity.TLS
	clock      identity.Clock
	reach      reach
	handshakes handshakes
	log        *slog.Logger
	closed     atomic.Bool
	attends    atomic.Bool // to something that goes on for long
	cancel     context.CancelFunc
	done       sync.WaitGroup

	tellUnwritten atomic.Pointer[func(why error, lapses time.Time)]

	config Config
	opts   []grpc.DialOption
}

// Dial connects to the managers with the credentials of the configuration. The
// connection is made when it is first used.
func Dial(config Config, log *slog.Logger, opts ...grpc.DialOption) (*Uplink, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	files := identity.FilesIn(config.CredentialsDir)
	if _, err := files.Credentials(); err != nil {
		return nil, err
	}
	if key := config.ExposedKey(); key != "" {
		log.Warn("every user of this machine can read the private key: chmod 600 it", "file", key)
	}
	security := identity.TLS{TrustDomain: config.TrustDomain, Source: files}
	managers := newTransports(config.Endpoints)
	u := &Uplink{transports: managers, files: files, security: security, log: log, config: config, opts: opts}
	trusted := noted{credentials.NewTLS(security.Client(identity.Manager)), &u.handshakes}
	telling := []grpc.DialOption{grpc.WithChainStreamInterceptor(u.reach.intercept), grpc.WithChainUnaryInterceptor(u.tellUnanswered)}
	connection, err := managers.dial(trusted, callFor, append(telling, opts...))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	u.ClientConn, u.cancel = connection, cancel
	if config.Renew || config.ServiceAccountTokenFile != "" {
		u.done.Go(func() { u.keepRenewed(ctx) })
	}
	return u, nil
}

func dial(endpoints []string, security *tls.Config, calls time.Duration, opts []grpc.DialOption) (*grpc.ClientConn, error) {
	return newTransports(endpoints).dial(credentials.NewTLS(security), calls, opts)
}

// dial returns a connection on which calls are made again for so long.
func (t *transports) dial(trusted credentials.TransportCredentials, calls time.Duration, opts []grpc.DialOption) (*grpc.ClientConn, error) {
	connection, err := grpc.NewClient("groupcast:///managers", append([]grpc.DialOption{
		grpc.WithResolvers(t.managers),
		grpc.WithTransportCredentials(trusted),
		grpc.WithDefaultServiceConfig(callPolicy()),
		grpc.WithChainUnaryInterceptor(callAgain(calls)),
		grpc.WithConnectParams(reconnect),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 5 * time.Second}),
	}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("dial %v: %w", t.endpoints, err)
	}
	return connection, nil
}

// Gatherer returns a connection to whatever gatherer is at an address, with the same credentials.
func (u *Uplink) Gatherer(address string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	return dial([]string{address}, u.security.Client(identity.Gatherer), callBriefly, opts)
}

// Named is a connection to the gatherer of a name, wherever it is.
type Named struct {
	*grpc.ClientConn
	transports *transports
}

// GathererNamed returns a connection to the gatherer of a name at one of its addresses; the gatherer has to prove the name.
func (u *Uplink) GathererNamed(name string, addresses []string, opts ...grpc.DialOption) (*Named, error) {
	at := newTransports(addresses)
	connection, err := at.dial(credentials.NewTLS(u.security.Dial(identity.ID{Role: identity.Gatherer, Name: name}, "h2")), callBriefly, opts)
	if err != nil {
		return nil, err
	}
	return &Named{connection, at}, nil
}

// Move has the gatherer dialled at other addresses from now on. A connection to one of them stays.
func (n *Named) Move(addresses []string) { n.transports.move(addresses) }

// Over makes managers be dialled by a dialer; nil changes nothing.
func Over(dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
},
) grpc.DialOption {
	if dialer == nil {
		return grpc.EmptyDialOption{}
	}
	return grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", address)
	})
}

// Close closes the connection, and ends what keeps it usable. It waits for a renewal that has just begun.
func (u *Uplink) Close() error {
	u.closed.Store(true)
	u.reach.stop()
	u.cancel()
	u.done.Wait()
	return Close(u.ClientConn)
}

// Closed reports whether the uplink was closed: then it is no use trying again.
func (u *Uplink) Closed() bool { return u.closed.Load() }

// Close closes a connection; it may have been closed before.
func Close(connection *grpc.ClientConn) error {
	if err := connection.Close(); status.Code(err) != codes.Canceled {
		return err
	}
	return nil
}

// ID returns the identity that the connection proves.
func (u *Uplink) ID() (identity.ID, error) {
	current, err := u.files.Credentials()
	if err != nil {
		return identity.ID{}, err
	}
	return current.ID, nil
}

// PodSession returns the configuration's PodSession.
func (u *Uplink) PodSession() string { return u.config.PodSession() }

// Clock returns the managers' clock, as learned from their answers.
func (u *Uplink) Clock() *identity.Clock { return &u.clock }

// Security returns what secures data connections: the same credentials.
func (u *Uplink) Security() identity.TLS { return u.security }

// Enroll exchanges a join token for credentials, and writes them to the
// configuration's directory. A token of another role is refused, unless role is empty.
func Enroll(ctx context.Context, config Config, role identity.Role, token string, opts ...grpc.DialOption) (identity.ID, error) {
	if err := config.Validate(); err != nil {
		return identity.ID{}, err
	}
	parsed, err := identity.ParseToken(token)
	if err != nil {
		return identity.ID{}, err
	}
	return enroll(ctx, config, parsed.CA, &groupv1.EnrollRequest{Token: parsed.String(), Role: string(role)}, opts)
}

// EnrollPod exchanges the token of this pod's ServiceAccount for credentials. Unlike a join
// token it does not say who the managers are: they are known by their CA. A ServiceAccount of another role is refused, unless role is
// empty.
func EnrollPod(ctx context.Context, config Config, role identity.Role, opts ...grpc.DialOption) (identity.ID, error) {
	if err := config.Validate(); err != nil {
		return identity.ID{}, err
	}
	ca, err := identity.ReadAuthority(config.AuthorityFile)
	if err != nil {
		return identity.ID{}, err
	}
	token, err := os.ReadFile(config.ServiceAccountTokenFile) // the kubelet renews it
	if err != nil {
		return identity.ID{}, fmt.Errorf("read the ServiceAccount's token: %w", err)
	}
	id, err := enroll(ctx, config, ca, &groupv1.EnrollRequest{Token: strings.TrimSpace(string(token)), Role: string(role)}, opts)
	if err != nil {
		return identity.ID{}, fmt.Errorf("enroll with the ServiceAccount's token: %w", err)
	}
	return id, nil
}

func enroll(ctx context.Context, config Config, ca identity.Fingerprint, asked *groupv1.EnrollRequest, opts []grpc.DialOption) (identity.ID, error) {
	connection, err := dial(config.Endpoints, identity.EnrollTLS(ca, config.TrustDomain, time.Now), callFor, opts)
	if err != nil {
		return identity.ID{}, err
	}
	defer connection.Close()
	bundle, err := certifyFirst(identity.FilesIn(config.CredentialsDir), func(request []byte) (*groupv1.Certificate, error) {
		asked.CertificateRequest = request
		answer, err := groupv1.NewIdentityServiceClient(connection).Enroll(ctx, asked)
		return answer.GetCertificate(), err
	})
	if err != nil {
		return identity.ID{}, err
	}
	issued, err := bundle.Credentials()
	if err != nil {
		return identity.ID{}, err
	}
	return issued.ID, nil
}

// Reason returns the reason in an error of the API, such as RELIST; empty if there is none.
func Reason(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, is := detail.(*errdetails.ErrorInfo); is {
			return info.GetReason()
		}
	}
	return ""
}

// Words returns what a failed call says to people, without the names that gRPC gives its own parts.
func Words(err error) string {
	var reported interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &reported) {
		return err.Error()
	}
	text := strings.TrimPrefix(reported.GRPCStatus().Message(), "latest balancer error: ") // this precedes the text if the call waited for a connection
	if quoted, is := strings.CutPrefix(text, "connection error: desc = "); is {
		if inner, err := strconv.Unquote(quoted); err == nil {
			text = inner
		}
		return strings.TrimPrefix(strings.TrimPrefix(text, "transport: "), "Error while dialing: ")
	}
	switch {
	case strings.HasPrefix(text, context.DeadlineExceeded.Error()): // some texts go on with what was waited for
		return "no answer in time"
	case strings.HasSuffix(text, "the client connection is closing"):
		return closedWords
	}
	return text
}

// closedWords are the words for a call after Close.
const closedWords = "the client was closed"

// InWords returns the error of a failed call with the text that Words has of it.
func InWords(err error) error { return inWords{err} }

// inWords is an error whose text is what Words says of it.
type inWords struct{ error }

func (e inWords) Error() string { return Words(e.error) }
func (e inWords) Unwrap() error { return e.error }

// Is makes a call that was canceled match the error of its context.
func (e inWords) Is(target error) bool {
	return target == context.Canceled && status.Code(e.error) == codes.Canceled
}

// sleep waits about so long, give or take half, so that many clients that were cut off at
// once do not come back at once. It returns false when ctx is done.
func sleep(ctx context.Context, about time.Duration) bool {
	return pause.For(ctx, about/2+rand.N(about))
}

// Errors after which trying again helps.
var (
	errSilent  = errors.New("the manager is silent")
	errGivenUp = errors.New("the manager had given up this process")
	errMissed  = errors.New("changes were missed")
	errTooMuch = errors.New("what there was to report is more than a message holds")
)
