package daemon_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/simnet"
)

// flooding is a connection that begins requests, and ends none.
type flooding struct {
	*testing.T
	raw    net.Conn
	frames *http2.Framer
	heads  bytes.Buffer
	header *hpack.Encoder
	call   uint32
}

func flood(t *testing.T, address string, security *tls.Config) *flooding {
	t.Helper()
	security = security.Clone()
	security.NextProtos = []string{"h2"}
	raw, err := tls.Dial("tcp", address, security)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	f := &flooding{T: t, raw: raw, frames: http2.NewFramer(raw, raw), call: 1}
	f.header = hpack.NewEncoder(&f.heads)
	raw.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(raw, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := f.frames.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return f
}

// begin begins a request of the largest size, and sends so many bytes of it. It returns whether the server takes them.
func (f *flooding) begin(method string, size int) bool {
	f.heads.Reset()
	for _, field := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "https"},
		{Name: ":path", Value: method},
		{Name: ":authority", Value: "it"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	} {
		if err := f.header.WriteField(field); err != nil {
			f.Fatal(err)
		}
	}
	defer func() { f.call += 2 }()
	if f.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: f.call, BlockFragment: f.heads.Bytes(), EndHeaders: true}) != nil {
		return false
	}
	if f.frames.WriteData(f.call, false, binary.BigEndian.AppendUint32([]byte{0}, daemon.MaxMessage)) != nil || !f.isAskedForMore() {
		return false
	}
	for ; size > 0; size -= 16 << 10 {
		if f.frames.WriteData(f.call, false, make([]byte, 16<<10)) != nil {
			return false
		}
	}
	return true
}

// isAskedForMore waits until the server has room for the whole request, or refuses it.
func (f *flooding) isAskedForMore() bool {
	for {
		frame, err := f.frames.ReadFrame()
		if err != nil {
			return false
		}
		switch frame := frame.(type) {
		case *http2.WindowUpdateFrame:
			if frame.StreamID == f.call && frame.Increment > 1<<20 {
				return true
			}
		case *http2.HeadersFrame:
			if frame.StreamID == f.call {
				return false
			}
		case *http2.RSTStreamFrame:
			if frame.StreamID == f.call {
				return false
			}
		}
	}
}

// heap is how much memory is in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what pools kept, too
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return int64(now.HeapAlloc)
}

// begunSize is how much of a request comes that does not end.
const begunSize = 1 << 20

// floods begins so many requests on each of so many connections, and returns how many were taken.
func floods(t *testing.T, address string, security *tls.Config, connections, calls int) (taken int) {
	t.Helper()
	for range connections {
		f := flood(t, address, security)
		for range calls {
			if f.begin(healthv1.Health_Check_FullMethodName, begunSize) {
				taken++
			}
		}
	}
	return taken
}

// wantCheap wants requests that have not ended to hold little memory.
func wantCheap(t *testing.T, before, most int64, taken int) {
	t.Helper()
	if took := heap() - before; took > most {
		t.Errorf("%d requests of which %d MiB came, and that have not ended, hold %d bytes, want at most %d", taken, begunSize>>20, took, most)
	}
}

// Callers without a certificate that begin requests and do not end them cost the server a little memory, and nobody else's calls.
func TestRequestsThatDoNotEnd(t *testing.T) {
	const connections, calls, most = 2, 40, 8 << 20
	s := serveMost(t, 64, new(bytes.Buffer), nil)
	before := heap()
	nobody := &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true} // #nosec G402 -- it is nobody's
	wantCheap(t, before, most, floods(t, s.address, nobody, connections, calls))
	if err := s.check(); err != nil {
		t.Errorf("a call with a certificate: %v", err)
	}
}

// Neither do callers with a certificate, of which there may be many: those that send most are cut off, and nobody else is.
func TestRequestsThatDoNotEndOfPeers(t *testing.T) {
	const connections, calls, most = 4, 60, 160 << 20
	s := serveMost(t, 64, new(bytes.Buffer), nil)
	before := heap()
	if err := s.check(); err != nil {
		t.Fatal(err)
	}
	wantCheap(t, before, most, floods(t, s.address, s.security, connections, calls))
	if err := s.check(); err != nil {
		t.Errorf("a call of another one: %v", err)
	}
	if state := s.connection.GetState(); state != connectivity.Ready {
		t.Errorf("the connection of another one is %v, want it to go on", state)
	}
}

// atHost is the network at a simulated host.
type atHost struct{ *simnet.Host }

func (h atHost) Listen(_, address string) (net.Listener, error) { return h.Host.Listen(address) }

func (h atHost) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return h.Dial(ctx, network, address)
}

// A call that is no stream ends after 30 s, even if its request never does.
func TestTimeOfACallBeginsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(1)
		security, client := newSecurity(t)
		port, err := daemon.ListenGRPC(daemon.Env{Log: slog.New(slog.DiscardHandler), Network: atHost{network.Host("manager")}},
			daemon.GRPCConfig{Listen: ":7400", MaxConnections: 64}, security, daemon.Guards{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		var serving sync.WaitGroup
		serving.Go(func() {
			if err := port.Serve(ctx, time.Second); err != nil {
				t.Error(err)
			}
		})
		defer serving.Wait()
		defer stop()
		caller := atHost{network.Host("caller")}
		connection, err := grpc.NewClient("passthrough:///manager:7400", grpc.WithTransportCredentials(credentials.NewTLS(client.Client(identity.Manager))),
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				return caller.DialContext(ctx, "tcp", address)
			}))
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		start := time.Now()
		call, err := connection.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, healthv1.Health_Check_FullMethodName)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Hour, func() { connection.Close() }) // simulated time
		err = call.RecvMsg(new(healthv1.HealthCheckResponse))
		if took := time.Since(start).Round(time.Second); status.Code(err) != codes.DeadlineExceeded || took != 30*time.Second {
			t.Errorf("after %v: %v, want its end after 30 s", took, err)
		}
	})
}
