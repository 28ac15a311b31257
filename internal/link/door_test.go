package link_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/link"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// entrance is a door at work, which welcomes all who ask.
type entrance struct {
	*testing.T
	neighbours
	address string
	served  atomic.Int32
	refused chan string
	waits   sync.Mutex // nobody is welcomed while it is held
}

// open opens a door at a listener until the test ends.
func open(t *testing.T, listener net.Listener) *entrance {
	t.Helper()
	e := &entrance{T: t, neighbours: newNeighbours(t), address: listener.Addr().String(), refused: make(chan string, 1000)}
	door := &link.Door{
		Security: e.parent, Log: slog.New(slog.DiscardHandler), Refused: func(reason string) { e.refused <- reason },
		Serve: func(_ context.Context, asked *link.Asked) {
			e.served.Add(1)
			e.waits.Lock()
			defer e.waits.Unlock()
			if conn, err := asked.Welcome(wire.Welcome{TreeVersion: 1}); err == nil {
				conn.Close()
			}
		},
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := door.Run(ctx, listener); err != nil {
			t.Error(err)
		}
		door.Wait()
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return e
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// come opens a connection and says nothing.
func (e *entrance) come() net.Conn {
	e.Helper()
	raw, err := net.Dial("tcp", e.address)
	if err != nil {
		e.Fatal(err)
	}
	return raw
}

// enter asks for a link in the proper way.
func (e *entrance) enter() error {
	conn, _, err := link.Dial(e.Context(), &net.Dialer{}, e.address, e.child, parentID, wire.Hello{Offer: true, Stripes: 1, TreeVersion: 1})
	if err == nil {
		conn.Close()
	}
	return err
}

func (e *entrance) wantRefused(reason string) {
	e.Helper()
	select {
	case got := <-e.refused:
		if got != reason {
			e.Errorf("refused as %q, want %q", got, reason)
		}
	case <-time.After(time.Minute):
		e.Fatalf("not refused, want %q", reason)
	}
}

// A peer that speaks something else, or only measures the way, is not served, and it is said which of these it is.
func TestDoorTellsWhyItRefuses(t *testing.T) {
	e := open(t, listen(t))
	raw := e.come()
	if _, err := raw.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Error(err)
	}
	e.wantRefused(link.Handshake)
	raw.Close()
	e.come().Close()
	e.wantRefused(link.Probe)
	if err := e.enter(); err != nil {
		t.Error(err)
	}
	if n := e.served.Load(); n != 1 {
		t.Errorf("%d were served, want 1", n)
	}
}

// comeFrom opens connections from an address, and says nothing on them.
func (e *entrance) comeFrom(source string, connections int) (silent []net.Conn) {
	e.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	for range connections {
		raw, err := dialer.DialContext(e.Context(), "tcp", e.address)
		if err != nil {
			e.Fatal(err)
		}
		e.Cleanup(func() { raw.Close() })
		silent = append(silent, raw)
	}
	return silent
}

// One source can have at most 64 links being opened. Who comes then is sent away as long as the others may get on, and not any more once one of them
// has said nothing for 2 s. When they have gone, there is room again.
func TestDoorIsNotCrowdedByOneSource(t *testing.T) {
	const each = 64
	e := open(t, listen(t))
	silent := e.comeFrom("127.0.0.1", each)
	if err := e.enter(); err == nil {
		t.Error("one more was not sent away at once")
	}
	e.wantRefused(link.Crowded)
	time.Sleep(2100 * time.Millisecond)
	if err := e.enter(); err != nil {
		t.Errorf("one more, 2 s later: %v", err)
	}
	e.wantRefused(link.Crowded)
	for _, raw := range silent {
		raw.Close()
	}
	for range each - 1 {
		e.wantRefused(link.Probe)
	}
	if err := e.enter(); err != nil {
		t.Errorf("when the others have gone: %v", err)
	}
}

// Sources that take all places and say nothing keep nobody else out.
func TestDoorIsNotCrowdedByAFewSources(t *testing.T) {
	const each = 64
	e := open(t, listen(t))
	for _, source := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"} {
		e.comeFrom(source, each)
	}
	for range 3 {
		if err := e.enter(); err != nil {
			t.Errorf("one more: %v", err)
		}
		e.wantRefused(link.Crowded)
		e.comeFrom("127.0.0.6", 1)
	}
	select {
	case reason := <-e.refused:
		t.Errorf("another was refused as %q", reason)
	default:
	}
}

// Whoever has asked for a link is not closed for those who come then, even from where most of them are.
func TestDoorClosesNobodyWhoHasAsked(t *testing.T) {
	const each = 64
	e := open(t, listen(t))
	e.waits.Lock()
	entered := make(chan error, 1)
	go func() { entered <- e.enter() }()
	for e.served.Load() == 0 {
		select {
		case err := <-entered:
			t.Fatalf("%v before it was served", err)
		case <-time.After(time.Millisecond):
		}
	}
	e.comeFrom("127.0.0.1", 3*each)
	for range 2 * each {
		e.wantRefused(link.Crowded)
	}
	e.waits.Unlock()
	if err := <-entered; err != nil {
		t.Error(err)
	}
}

// failing is a listener that cannot accept at first, like one that is out of descriptors.
type failing struct {
	net.Listener
	failures atomic.Int32
}

func (f *failing) Accept() (net.Conn, error) {
	if f.failures.Add(-1) >= 0 {
		return nil, errors.New("too many open files")
	}
	return f.Listener.Accept()
}

// A door that could not accept for a while works again afterwards.
func TestDoorOutlivesWantOfDescriptors(t *testing.T) {
	listener := &failing{Listener: listen(t)}
	listener.failures.Store(2)
	if err := open(t, listener).enter(); err != nil {
		t.Error(err)
	}
}

// A door whose listener is closed by somebody else says so.
func TestDoorWithoutListener(t *testing.T) {
	listener := listen(t)
	listener.Close()
	door := &link.Door{Log: slog.New(slog.DiscardHandler)}
	if err := door.Run(t.Context(), listener); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v, want that it is closed", err)
	}
}
