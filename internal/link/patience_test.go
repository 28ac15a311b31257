package link_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/simnet"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// sluggish is a sink that takes its time.
type sluggish struct {
	*sink
	write, landed time.Duration
}

func (s *sluggish) Section(offset uint64) (link.Place, int64, error) {
	return link.Place{To: sluggishWriter{io.NewOffsetWriter(s.to, int64(offset)), s.write}}, 1 << 40, nil
}

type sluggishWriter struct {
	io.Writer
	takes time.Duration
}

func (w sluggishWriter) Write(p []byte) (int, error) {
	time.Sleep(w.takes)
	return w.Writer.Write(p)
}

func (s *sluggish) Landed(upTo uint64) error {
	time.Sleep(s.landed)
	return s.sink.Landed(upTo)
}

// A neighbour has to make progress in its time. The time that a disk takes, or that a program needs for what has
// come, does not count as silence: neither the parent's nor the child's.
func TestOwnTimeIsNotTheNeighbours(t *testing.T) {
	const long = 5 * time.Second // longer than a neighbour may be silent
	for _, plaintext := range []bool{false, true} {
		for name, slow := range map[string]sluggish{"write": {write: long}, "landed": {landed: long}} {
			t.Run(fmt.Sprintf("%s plaintext=%t", name, plaintext), func(t *testing.T) {
				file, content := randomFile(t, 1<<20)
				to := emptyFile(t)
				synctest.Test(t, func(t *testing.T) {
					parent, child := newSimulated(t).connect(plaintext)
					slow.sink = newSink(to, 0, 1<<20)
					fed, taken := transfer(t.Context(), parent, child, 0, &source{file: file, length: uint64(len(content))}, &slow)
					if fed != nil || taken != nil {
						t.Errorf("fed: %v; taken: %v", fed, taken)
					}
				})
				(&striped{TB: t}).wantArrived(slow.sink, content)
			})
		}
	}
}

// A neighbour behind a path so slow that a TLS record takes longer than it may be silent is not silent: what has come of the record shows that.
func TestSlowPathIsNotSilence(t *testing.T) {
	for _, plaintext := range []bool{false, true} {
		for _, rate := range []simnet.Rate{4 << 10, 1 << 10} {
			t.Run(fmt.Sprintf("rate=%d plaintext=%t", rate, plaintext), func(t *testing.T) {
				file, content := randomFile(t, 48<<10)
				to := emptyFile(t)
				var store *sink
				synctest.Test(t, func(t *testing.T) {
					store = newSink(to, 0, 1<<20)
					s := newSimulated(t)
					parent, child := s.connect(plaintext)
					s.net.Shape("parent", "child", simnet.Shape{Latency: time.Millisecond, Rate: rate})
					fed, taken := transfer(t.Context(), parent, child, 0, &source{file: file, length: uint64(len(content))}, store)
					if fed != nil || taken != nil {
						t.Errorf("after %d bytes: fed: %v; taken: %v", store.Answer().Ack, fed, taken)
					}
				})
				(&striped{TB: t}).wantArrived(store, content)
			})
		}
	}
}

// A neighbour that falls silent in the middle of a TLS record is given up as soon as between two.
func TestSilenceWithinARecord(t *testing.T) {
	file, content := randomFile(t, 256<<10)
	to := emptyFile(t)
	synctest.Test(t, func(t *testing.T) {
		s := newSimulated(t)
		parent, child := s.connect(false)
		s.net.Shape("parent", "child", simnet.Shape{Latency: time.Millisecond, Rate: 4 << 10})
		const long = 10 * time.Second
		begun := time.Now()
		time.AfterFunc(long, func() { s.net.CutOneWay("parent", "child") })
		_, taken := transfer(t.Context(), parent, child, 0, &source{file: file, length: uint64(len(content))}, newSink(to, 0, 1<<20))
		if took := time.Since(begun) - long; !errors.Is(taken, link.ErrSilent) || took < time.Second || took > 3*time.Second {
			t.Errorf("%v after it fell silent: %v", took, taken)
		}
	})
}

// C6: a neighbour that only drips is given up, however slow this side is: a parent within a header or a payload, and a child.
func TestDrippingIsSilence(t *testing.T) {
	begun := wire.Header{Type: wire.Data, Length: 1 << 20, TreeVersion: 1}.Append(nil)
	for _, plaintext := range []bool{false, true} {
		for _, every := range []time.Duration{100 * time.Millisecond, time.Second} {
			t.Run(fmt.Sprintf("plaintext=%t every=%v", plaintext, every), func(t *testing.T) {
				drippingParent(t, plaintext, every, begun)
			})
		}
		t.Run(fmt.Sprintf("plaintext=%t header", plaintext), func(t *testing.T) {
			drippingParent(t, plaintext, time.Second, nil)
			drippingChild(t, plaintext)
		})
	}
}

// drippingParent has a parent drip, after what it has sent at once.
func drippingParent(t *testing.T, plaintext bool, every time.Duration, begun []byte) {
	t.Helper()
	to := emptyFile(t)
	synctest.Test(t, func(t *testing.T) {
		parent, child := newSimulated(t).connect(plaintext)
		defer parent.Close()
		if err := parent.Send(begun); err != nil {
			t.Fatal(err)
		}
		store := &sluggish{sink: newSink(to, 0, 1<<20), write: 50 * time.Millisecond}
		wantGivenUp(t, parent, every, func() error { return link.NewTaking(t.Context(), 0, store, link.Options{}).Run(child) })
	})
}

func drippingChild(t *testing.T, plaintext bool) {
	t.Helper()
	file, content := randomFile(t, 1<<20)
	synctest.Test(t, func(t *testing.T) {
		parent, child := newSimulated(t).connect(plaintext)
		defer child.Close()
		supply := &source{file: file, length: uint64(len(content))}
		wantGivenUp(t, child, time.Second, func() error { return link.NewFeeding(t.Context(), 0, supply, link.Options{}).Run(parent) })
	})
}

// wantGivenUp has a neighbour drip until its link is ended.
func wantGivenUp(t *testing.T, dripping *link.Conn, every time.Duration, run func() error) {
	t.Helper()
	var drips sync.WaitGroup
	drips.Go(func() {
		for dripping.Send([]byte{1}) == nil {
			time.Sleep(every)
		}
	})
	begun := time.Now()
	err := run()
	if took := time.Since(begun); !errors.Is(err, link.ErrSilent) || took > 10*time.Second {
		t.Errorf("after %v: %v", took, err)
	}
	drips.Wait()
}

// lingering is a connection whose closing takes longer than one end ever says nothing: whatever else uses it finds it closed meanwhile.
type lingering struct{ net.Conn }

func (l lingering) Close() error {
	err := l.Conn.Close()
	time.Sleep(time.Second)
	return err
}

// That a neighbour is silent is told, and not what others then find who use the connection, which is closed for that.
func TestWhoIsSilentIsNotToldAsClosed(t *testing.T) {
	to := emptyFile(t)
	for _, plaintext := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newSimulated(t)
			s.lingers = true
			parent, child := s.connect(plaintext)
			defer parent.Close()
			if err := link.NewTaking(t.Context(), 0, newSink(to, 0, 1<<20), link.Options{}).Run(child); !errors.Is(err, link.ErrSilent) {
				t.Errorf("plaintext %t: the link ended by: %v", plaintext, err)
			}
		})
	}
}

// Nor is a parent that cannot send what it has told as one that closed its connection, which it does for that.
func TestWhatCannotBeSentIsTold(t *testing.T) {
	for _, plaintext := range []bool{false, true} {
		parent, child := newNeighbours(t).connect(t, wire.Hello{Stripes: 1, Plaintext: plaintext}, 0)
		file, _ := randomFile(t, 1<<10)
		fed, _ := transfer(t.Context(), parent, child, 0, &source{file: file, length: 1 << 20}, newSink(emptyFile(t), 0, 1<<20))
		if !errors.Is(fed, io.EOF) && !errors.Is(fed, io.ErrUnexpectedEOF) || errors.Is(fed, net.ErrClosed) {
			t.Errorf("plaintext %t: of a file that is shorter than it was: %v", plaintext, fed)
		}
	}
}

// simulated is a network in memory with a parent and a child.
type simulated struct {
	*testing.T
	neighbours
	net     *simnet.Network
	lingers bool // the child's connections do
}

func newSimulated(t *testing.T) *simulated {
	t.Helper()
	s := &simulated{T: t, net: simnet.New(1)}
	s.net.ShapeAll(simnet.Shape{Latency: time.Millisecond})
	ca, err := identity.NewCA(identity.DefaultTrustDomain, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for id, as := range map[identity.ID]*identity.TLS{parentID: &s.parent, childID: &s.child} {
		source, err := identity.NewSelfIssued(ca, id)
		if err != nil {
			t.Fatal(err)
		}
		*as = identity.TLS{TrustDomain: identity.DefaultTrustDomain, Source: source, Now: time.Now}
	}
	return s
}

// DialContext implements link.Dialer for the child.
func (s *simulated) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := s.net.Host("child").Dial(ctx, network, address)
	if err == nil && s.lingers {
		conn = lingering{conn}
	}
	return conn, err
}

// connect opens a link, dialled by the child.
func (s *simulated) connect(plaintext bool) (parent, child *link.Conn) {
	s.Helper()
	listener, err := s.net.Host("parent").Listen("parent:1")
	if err != nil {
		s.Fatal(err)
	}
	defer listener.Close()
	var welcomed sync.WaitGroup
	welcomed.Go(func() {
		raw, err := listener.Accept()
		if err != nil {
			s.Error(err)
			return
		}
		asked, err := link.Accept(s.Context(), raw, s.parent)
		if err != nil {
			s.Error(err)
			return
		}
		if parent, err = asked.Welcome(wire.Welcome{TreeVersion: 1}); err != nil {
			s.Error(err)
		}
	})
	child, _, err = link.Dial(s.Context(), s, "parent:1", s.child, parentID, wire.Hello{Stripes: 1, Plaintext: plaintext})
	welcomed.Wait()
	if err != nil || s.Failed() {
		s.Fatalf("dial: %v", err)
	}
	return parent, child
}
