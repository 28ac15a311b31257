package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/groupcast/groupcast/internal/identity"
)

// Limits of a gRPC server, chosen so that no peer can take what others need.
const (
	// MaxMessage is the size of the largest message, in bytes. Bulk data never travels in gRPC.
	MaxMessage           = 4 << 20
	maxHeaderList        = 16 << 10
	maxConcurrentStreams = 1000 // per connection
	// maxUnaryTime is how long a call may take, from its beginning to when its answer has been taken.
	maxUnaryTime     = 30 * time.Second
	handshakeTimeout = 5 * time.Second
	// Windows that do not grow: else each of a connection's calls may send 16 MiB that nobody has asked for.
	streamWindow     = 64 << 10
	connectionWindow = 1 << 20
	// A peer may ping this often, and a silent connection is probed.
	minPing     = 5 * time.Second
	probeAfter  = 10 * time.Second
	probeAnswer = 5 * time.Second
	// A connection is renewed this often, so that clients spread over servers that come and go, and
	// streams that have fallen silent end.
	connectionAge   = 30 * time.Minute
	connectionGrace = 15 * time.Second
)

// GRPCConfig says where a gRPC server listens.
type GRPCConfig struct {
	Listen         string `json:"listen" usage:"address of the gRPC port"`
	MaxConnections int    `json:"maxConnections" usage:"connections at once; more wait until one closes; one address can have a quarter of them, and of that a quarter without a certificate"`
}

// GRPC is a gRPC server with health and reflection.
type GRPC struct {
	*grpc.Server
	health   *health.Server
	listener net.Listener
	log      *slog.Logger
	admit    func(ctx context.Context, method string) error
	unary    map[string]bool // methods that are no streams
	draining context.Context // done when the server stops
	drain    context.CancelFunc
}

// Guards are what sees every call.
type Guards struct {
	// Admit refuses calls of those who may not make them, before anything of the request is read. Of streams, Stream does that.
	Admit func(ctx context.Context, method string) error
	// Unary and Stream see a call after its limits have been checked. One that is no stream has been read then.
	Unary  []grpc.UnaryServerInterceptor
	Stream []grpc.StreamServerInterceptor
}

// ListenGRPC takes the port.
func ListenGRPC(env Env, config GRPCConfig, security identity.TLS, guards Guards) (*GRPC, error) {
	listener, err := env.Listen("tcp", config.Listen)
	if err != nil {
		return nil, fmt.Errorf("gRPC port (set grpc.listen to another address): %w", err)
	}
	g := &GRPC{
		health: health.NewServer(), listener: netutil.LimitListener(newSourceListener(listener, config.MaxConnections/sourceShare), config.MaxConnections),
		admit: guards.Admit, unary: make(map[string]bool), log: env.Log,
	}
	g.draining, g.drain = context.WithCancel(context.Background())
	g.Server = grpc.NewServer(
		grpc.Creds(&meter{
			TransportCredentials: newAnonymous(credentials.NewTLS(security.Server()), config.MaxConnections/sourceShare/anonymousShare),
			trustDomain:          security.TrustDomain, budget: newBudget(pendingMost, env.Log),
		}),
		grpc.InTapHandle(g.begin),
		grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxSendMsgSize(MaxMessage),
		grpc.MaxHeaderListSize(maxHeaderList), grpc.MaxConcurrentStreams(maxConcurrentStreams),
		grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connectionWindow),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: probeAfter, Timeout: probeAnswer, MaxConnectionAge: connectionAge, MaxConnectionAgeGrace: connectionGrace,
		}),
		// Thousands of quiet connections must not each hold buffers of a size for a busy one.
		grpc.ReadBufferSize(4<<10), grpc.WriteBufferSize(16<<10),
		grpc.ChainUnaryInterceptor(append([]grpc.UnaryServerInterceptor{g.guardUnary}, guards.Unary...)...),
		grpc.ChainStreamInterceptor(append([]grpc.StreamServerInterceptor{g.guardStream}, guards.Stream...)...),
	)
	healthv1.RegisterHealthServer(g, g.health)
	reflection.Register(g)
	return g, nil
}

// Addr returns where the server listens.
func (g *GRPC) Addr() string { return g.listener.Addr().String() }

// Serve answers calls until ctx is done. Then it tells streams to end, and gives everything in progress stopWait to end.
func (g *GRPC) Serve(ctx context.Context, stopWait time.Duration) error {
	served := make(chan error, 1)
	go func() { served <- g.Server.Serve(g.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve gRPC: %w", err)
	case <-ctx.Done():
	}
	g.health.Shutdown()
	g.drain()
	drained := make(chan struct{})
	go func() {
		g.GracefulStop()
		close(drained)
	}()
	select {
	case <-drained:
	case <-time.After(stopWait):
		g.Stop() // a handler that does not look at its context is left behind
	}
	if err := <-served; !errors.Is(err, grpc.ErrServerStopped) { // which is said if it was stopped before it began
		return err
	}
	return nil
}

// RegisterService registers a service. Its calls are admitted before their requests are read, which gRPC does before it
// asks an interceptor.
func (g *GRPC) RegisterService(service *grpc.ServiceDesc, impl any) {
	guarded := *service
	guarded.Methods = slices.Clone(service.Methods)
	for i := range guarded.Methods {
		method := &guarded.Methods[i]
		name, handler := "/"+service.ServiceName+"/"+method.MethodName, method.Handler
		g.unary[name] = true
		method.Handler = func(srv any, ctx context.Context, read func(any) error, interceptor grpc.UnaryServerInterceptor) (response any, err error) {
			defer g.recover(name, &err)
			if g.admit != nil {
				if err := g.admit(ctx, name); err != nil {
					return nil, err
				}
			}
			return handler(srv, ctx, read, interceptor)
		}
	}
	g.Server.RegisterService(&guarded, impl)
}

// begin bounds the time of a call that is no stream: also that of reading its request.
func (g *GRPC) begin(ctx context.Context, call *tap.Info) (context.Context, error) {
	if !g.unary[call.FullMethodName] {
		return ctx, nil
	}
	bounded, cancel := context.WithTimeout(ctx, maxUnaryTime)
	context.AfterFunc(ctx, cancel) // gRPC ends the context of every call
	return bounded, nil
}

// guardUnary turns a panic into an error of this one call.
func (g *GRPC) guardUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (response any, err error) {
	defer g.recover(info.FullMethod, &err)
	return handler(ctx, req)
}

func (g *GRPC) guardStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer g.recover(info.FullMethod, &err)
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(g.draining, cancel)()
	return handler(srv, &drainedStream{stream, ctx})
}

// drainedStream is a stream whose context also ends when the server stops.
type drainedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (d *drainedStream) Context() context.Context { return d.ctx }

func (g *GRPC) recover(method string, err *error) {
	if cause := recover(); cause != nil {
		g.log.Error("a call panicked", "method", method, "cause", cause, "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "the server failed; its log says why")
	}
}
