package gather_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/internal/wire/relay"
)

// liar is a client that ignores the rules.
type liar struct {
	*site
	dialer   link.Dialer
	security identity.TLS
	rpc      gatherv1.GatherServiceClient
}

func (s *site) liar() *liar {
	s.Helper()
	return s.liarFrom(s.access(), &net.Dialer{})
}

// liarFrom returns a liar with an access, which dials from elsewhere.
func (s *site) liarFrom(access string, dialer link.Dialer) *liar {
	s.Helper()
	config, err := uplink.ReadConfig(access)
	s.must(err)
	up, err := uplink.Dial(config, nil, uplink.Over(dialer))
	s.must(err)
	conn, err := up.Gatherer(s.grpc, uplink.Over(dialer))
	s.must(err)
	s.Cleanup(func() {
		conn.Close()
		up.Close()
	})
	return &liar{s, dialer, up.Security(), gatherv1.NewGatherServiceClient(conn)}
}

// attach attaches, and returns the session and a function to leave it.
func (l *liar) attach(name string) (session string, leave func()) {
	l.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := l.rpc.Attach(ctx)
	l.must(err)
	l.must(stream.Send(&gatherv1.AttachRequest{Client: name}))
	told, err := stream.Recv()
	l.must(err)
	return told.GetSession(), cancel
}

func (l *liar) open(session, path string, length uint64) *gatherv1.OpenUploadResponse {
	l.Helper()
	return l.openAs(session, &gatherv1.UploadSpec{Path: path, Length: length, Mode: 0o600})
}

func (l *liar) openAs(session string, spec *gatherv1.UploadSpec) *gatherv1.OpenUploadResponse {
	l.Helper()
	answer, err := l.rpc.OpenUpload(l.Context(), &gatherv1.OpenUploadRequest{Session: session, Spec: spec})
	l.must(err)
	return answer
}

// dial opens a data connection.
func (l *liar) dial(answer *gatherv1.OpenUploadResponse, change func(*relay.Hello)) (*link.Conn, error) {
	l.Helper()
	id, err := hex.DecodeString(answer.GetUpload())
	l.must(err)
	hello := relay.Hello{Offer: true, Stripes: 16, Delivery: relay.DeliveryID(id), TreeVersion: 1, Capability: answer.GetTicket()}
	if change != nil {
		change(&hello)
	}
	peer := identity.ID{Role: identity.Gatherer, Name: answer.GetGatherer()}
	conn, _, err := link.Dial(l.Context(), l.dialer, l.data, l.security, peer, hello)
	return conn, err
}

// nothing is the supply of a client that only shows that it lives.
type nothing struct{}

func (nothing) Next(uint64, uint64) (link.Portion, error) { return link.Portion{}, nil }
func (nothing) Sent(uint64, link.Portion)                 {}
func (nothing) Acked(uint64, relay.Level) error           { return nil }

// alive has a data connection live until it is closed: whoever is silent is let go.
func alive(ctx context.Context, conn *link.Conn) {
	_ = link.NewFeeding(ctx, 0, nothing{}, link.Options{}).Run(conn)
}

// C62: a client that is told to have one connection opens a thousand, and keeps them all alive: at
// no time has it more than twice as many as it was told, and those that are too many are ended.
// More uploads do not give it more than its policy permits. Others are not affected.
func TestC62TooManyConnections(t *testing.T) {
	s := start(t)
	s.policy("rules: [{clients: [greedy], maxConnections: 2}]")
	l := s.liar()
	session, leave := l.attach("greedy")
	defer leave()
	answers := []*gatherv1.OpenUploadResponse{l.open(session, "big", 1<<30), l.open(session, "too", 1<<30)}
	ctx, stop := context.WithCancel(t.Context())
	var living sync.WaitGroup
	defer living.Wait()
	defer stop()
	var admitted, refused atomic.Int32
	one := func(i int) {
		conn, err := l.dial(answers[i/900], func(hello *relay.Hello) { hello.Join, hello.Stripe = i%900 > 0, uint8(i%16) })
		var refusal *relay.Refusal
		switch {
		case err == nil:
			admitted.Add(1)
			living.Go(func() { alive(ctx, conn) })
		case errors.As(err, &refusal):
			refused.Add(1)
		default:
			t.Errorf("connection %d: %v, want it refused", i, err)
		}
	}
	one(0)
	var dialing errgroup.Group
	dialing.SetLimit(16)
	for i := range 999 {
		dialing.Go(func() error {
			one(i + 1)
			return nil
		})
	}
	s.must(dialing.Wait())
	// If it takes longer until the excess ones leave, others come in for those that have ended.
	if admitted.Load() > 20 || refused.Load() < 900 {
		t.Errorf("%d were admitted of 1000, %d refused, want 2 and the others", admitted.Load(), refused.Load())
	}
	if status := s.status("greedy"); status.GetConnections() > 2 {
		t.Errorf("it has %d connections", status.GetConnections())
	}
	name, content := s.file("f", 1, 1<<20)
	if p := s.upload("other", name); p.status() != 0 {
		t.Error(p.said.String())
	}
	s.wantFile("other", "f", content)
	s.await("what is too many is ended", func() bool { return s.status("greedy").GetConnections() <= 1 })
}

// Whoever shows no ticket, an old one, or another's is denied; and a connection that is no link is closed.
func TestBadTicketsAndGarbage(t *testing.T) {
	s := start(t)
	l := s.liar()
	session, leave := l.attach("alice")
	defer leave()
	answer, other := l.open(session, "a", 100), l.open(session, "b", 100)
	for name, change := range map[string]func(*relay.Hello){
		"none":           func(h *relay.Hello) { h.Capability = nil },
		"another's":      func(h *relay.Hello) { h.Capability = other.GetTicket() },
		"shorter":        func(h *relay.Hello) { h.Capability = h.Capability[:31] },
		"longer":         func(h *relay.Hello) { h.Capability = append(h.Capability[:32:32], 0) },
		"other upload":   func(h *relay.Hello) { h.Delivery[0]++ },
		"not offering":   func(h *relay.Hello) { h.Offer = false },
		"join of no one": func(h *relay.Hello) { h.Join = true },
	} {
		conn, err := l.dial(answer, change)
		var refusal *relay.Refusal
		if !errors.As(err, &refusal) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
		if err == nil {
			conn.Close()
		}
	}
	again := l.open(session, "a", 100)
	if conn, err := l.dial(answer, nil); err == nil {
		t.Error("an old ticket is permitted")
		conn.Close()
	}
	if conn, err := l.dial(again, nil); err != nil {
		t.Errorf("the new ticket: %v", err)
	} else {
		conn.Close()
	}
	for _, garbage := range []string{"GET / HTTP/1.1\r\n\r\n", string(random(1, 64<<10)), "\x16\x03\x01\xff\xff", ""} {
		conn, err := net.Dial("tcp", s.data)
		s.must(err)
		_, _ = conn.Write([]byte(garbage)) // it may be closed before all is written
		s.must(conn.SetReadDeadline(time.Now().Add(patience)))
		for buffer := make([]byte, 1024); err == nil; {
			_, err = conn.Read(buffer)
		}
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("%.20q was not closed", garbage)
		}
		conn.Close()
	}
	if s.metric("groupcast_gatherer_refused_links_total") < 3 {
		t.Error("what was refused is not counted")
	}
}

// C63: a client that sends what it was not asked for, while it is paused or beyond its cap, is cut off: a link carries no
// more than was asked for, and nothing else gets onto the disk. Others upload meanwhile.
func TestC63SendsMoreThanItIsAskedFor(t *testing.T) {
	const size, frame = 64 << 20, 16 << 10
	s := start(t)
	s.policy("rules: [{clients: [waits], minimum: 1MB}, {clients: [capped], max: 100kB}]\ndefault: {minimum: 1MB}\nlink: 1500kB\nadmission: queue")
	l := s.liar()
	_, leave := l.attach("first")
	defer leave()
	for _, c := range []struct {
		name string
		most uint64
	}{{"waits", 0}, {"capped", 1 << 20}} {
		session, leave := l.attach(c.name)
		defer leave()
		answer := l.open(session, "f", size)
		conn, err := l.dial(answer, nil)
		s.must(err)
		for at := uint64(0); err == nil && at < size; at += frame {
			header := relay.Header{Type: relay.Data, Length: frame, Offset: at, TreeVersion: 1}.Append(nil)
			err = conn.Send(append(header, make([]byte, frame)...))
		}
		conn.Close()
		if err == nil {
			t.Errorf("%s sends %d bytes that were not asked for, and is not cut off", c.name, size)
		}
		if there := l.open(session, "f", size).GetOffset(); there > c.most {
			t.Errorf("%d bytes of %s are there, want %d at most", there, c.name, c.most)
		}
	}
	s.policy("{}")
	file, content := s.file("f", 1, 1<<20)
	if p := s.upload("other", file); p.status() != 0 {
		t.Error(p.said.String())
	}
	s.wantFile("other", "f", content)
}

// A client that attaches a thousand times, and opens an upload each time, leaves nothing behind.
func TestReconnectsAThousandTimes(t *testing.T) {
	s := start(t)
	l := s.liar()
	once := func(i int) {
		session, leave := l.attach("restless")
		defer leave()
		answer := l.open(session, fmt.Sprintf("f%d", i%3), 1<<20)
		if i%10 != 0 {
			return
		}
		if conn, err := l.dial(answer, nil); err == nil {
			conn.Close()
		}
	}
	for i := range 50 {
		once(i)
	}
	settled := func() (goroutines float64, descriptors int) {
		s.await("it has left", func() bool { return !s.status("restless").GetAttached() })
		return s.metric("go_goroutines"), s.descriptors()
	}
	goroutines, descriptors := settled()
	for i := range 950 {
		once(i)
	}
	s.await("nothing is left behind", func() bool {
		now, open := settled()
		return now <= goroutines+20 && open <= descriptors+20
	})
	if uploads := s.status("restless").GetUploads(); uploads != 3 {
		t.Errorf("it has %d uploads, want 3", uploads)
	}
}

// A client that is silent on its control stream is disconnected; so is one that never says who it is.
func TestSilentSession(t *testing.T) {
	s := start(t)
	l := s.liar()
	_, leave := l.attach("silent")
	defer leave()
	s.await("it is let go", func() bool { return !s.status("silent").GetAttached() })
}
