package link_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/parallel"
	"github.com/groupcast/groupcast/internal/link"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// carrier is one stripe's connection, as the child dialled it.
type carrier struct {
	net.Conn
	came atomic.Int64
	pace time.Duration // the time that it takes for a kilobyte
}

func (c *carrier) Read(p []byte) (int, error) {
	if c.pace > 0 {
		time.Sleep(c.pace)
		p = p[:min(len(p), 1<<10)]
	}
	n, err := c.Conn.Read(p)
	c.came.Add(int64(n))
	return n, err
}

// striped is a link of several stripes over loopback, dialled by the child.
type striped struct {
	testing.TB
	neighbours
	listener net.Listener
	pace     func(stripe int) time.Duration // of a stripe, before it is opened

	mu       sync.Mutex
	refuses  int          // so many stripes, the first that ask to join
	carriers [][]*carrier // for each stripe, one carrier for each time that it was opened
	feeding  *link.Feeding
}

func newStriped(t testing.TB) *striped {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return &striped{TB: t, neighbours: newNeighbours(t), listener: listener, carriers: make([][]*carrier, parallel.Most)}
}

// dialler dials for one stripe.
type dialler struct {
	*striped
	stripe int
}

func (d dialler) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pace == nil {
		d.carriers[d.stripe] = append(d.carriers[d.stripe], &carrier{Conn: raw})
		return raw, nil
	}
	c := &carrier{Conn: raw, pace: d.pace(d.stripe)}
	d.carriers[d.stripe] = append(d.carriers[d.stripe], c)
	return c, nil
}

func (s *striped) open(ctx context.Context, stripe int, hello wire.Hello) (*link.Conn, error) {
	hello.Stripe, hello.Stripes = uint8(stripe), parallel.Most
	conn, _, err := link.Dial(ctx, dialler{s, stripe}, s.listener.Addr().String(), s.child, parentID, hello)
	return conn, err
}

// accept lets stripes join the link, which begins with the first one.
func (s *striped) accept(ctx context.Context, supply link.Supply, options link.Options, accepted *sync.WaitGroup) (fed chan error) {
	fed = make(chan error, 1)
	accepted.Go(func() {
		for {
			raw, err := s.listener.Accept()
			if err != nil {
				return
			}
			accepted.Go(func() { s.serve(ctx, raw, supply, options, fed) })
		}
	})
	return fed
}

func (s *striped) serve(ctx context.Context, raw net.Conn, supply link.Supply, options link.Options, fed chan<- error) {
	asked, err := link.Accept(ctx, raw, s.parent)
	if err != nil {
		return
	}
	s.mu.Lock()
	if !asked.Join {
		s.feeding = link.NewFeeding(ctx, asked.From, supply, options)
	}
	feeding := s.feeding
	refused := asked.Join && s.refuses > 0
	if refused {
		s.refuses--
	}
	s.mu.Unlock()
	if refused {
		asked.Refuse(wire.Unknown, "no place now")
		return
	}
	conn, err := asked.Welcome(wire.Welcome{TreeVersion: 1, From: asked.From})
	switch {
	case err != nil:
	case asked.Join:
		_ = feeding.Join(conn)
	default:
		fed <- feeding.Run(conn)
	}
}

// transfer feeds a file over so many stripes to a sink.
func (s *striped) transfer(stripes int, plaintext bool, from uint64, supply link.Supply, store link.Store) (fed, taken error) {
	s.Helper()
	bounds := parallel.Bounds{Least: stripes, Most: stripes}
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	var accepted sync.WaitGroup
	feds := s.accept(ctx, supply, link.Options{Bounds: bounds}, &accepted)
	first, err := s.open(ctx, 0, wire.Hello{Plaintext: plaintext, From: from})
	if err != nil {
		s.Fatal(err)
	}
	taking := link.NewTaking(ctx, from, store, link.Options{Bounds: bounds, Open: func(ctx context.Context, stripe int) (*link.Conn, error) {
		return s.open(ctx, stripe, wire.Hello{Plaintext: plaintext, From: from, Join: true})
	}})
	taken = taking.Run(first)
	fed = <-feds
	s.listener.Close()
	accepted.Wait()
	return fed, taken
}

func (s *striped) wantArrived(store *sink, content []byte) {
	s.Helper()
	got, err := os.ReadFile(store.to.Name())
	if err != nil || !bytes.Equal(got, content) {
		s.Errorf("%d bytes arrived (%v), want %d as they were", len(got), err, len(content))
	}
	if store.answer.Ack != store.from+uint64(len(content)) || !store.answer.Done {
		s.Errorf("it has landed up to %d, done: %t", store.answer.Ack, store.answer.Done)
	}
}

// "Parallel data delivery through the use of multiple sockets between any two nodes" (002 §2)
func TestStripesCarryTogether(t *testing.T) {
	for _, plaintext := range []bool{false, true} {
		for _, stripes := range []int{2, 5, parallel.Most} {
			t.Run(fmt.Sprintf("plaintext=%t stripes=%d", plaintext, stripes), func(t *testing.T) {
				s := newStriped(t)
				const from = 1<<20 + 17
				file, content := randomFile(t, 24<<20+5)
				supply, store := &source{file: file, length: uint64(len(content))}, newSink(emptyFile(t), from, 4<<20)
				if fed, taken := s.transfer(stripes, plaintext, from, supply, store); fed != nil || taken != nil {
					t.Fatalf("fed: %v; taken: %v", fed, taken)
				}
				s.wantArrived(store, content[from:])
				if supply.acked != uint64(len(content)) {
					t.Errorf("%d bytes are acknowledged", supply.acked)
				}
			})
		}
	}
}

// A slow stripe never holds up the others: each carries what it is ready for and, when there is
// nothing else to do, what the slow one does not carry.
func TestSlowStripeHoldsNobody(t *testing.T) {
	s := newStriped(t)
	s.pace = func(stripe int) time.Duration {
		if stripe == 0 { // the first stripe is there before the others
			return 60 * time.Millisecond
		}
		return 0
	}
	file, content := randomFile(t, 96<<20)
	supply, store := &source{file: file, length: uint64(len(content))}, newSink(emptyFile(t), 0, 96<<20)
	begun := time.Now()
	if fed, taken := s.transfer(4, false, 0, supply, store); fed != nil || taken != nil {
		t.Fatalf("fed: %v; taken: %v", fed, taken)
	}
	s.wantArrived(store, content)
	s.mu.Lock()
	defer s.mu.Unlock()
	slow := s.carriers[0][0].came.Load()
	t.Logf("the slow stripe brought %d bytes of %d in %v", slow, len(content), time.Since(begun))
	if supply.sent <= len(content) {
		t.Error("nobody sent what the slow one did not")
	}
	for stripe, opened := range s.carriers[:4] {
		if came := opened[0].came.Load(); stripe != 0 && came < 2*slow {
			t.Errorf("stripe %d carried %d bytes, the slow one %d", stripe, came, slow)
		}
	}
}

// breaking breaks stripes while they carry.
type breaking struct {
	*sink
	*striped
	every uint64
	next  uint64
	which int
	begun bool
}

// Landed breaks a stripe now and then, in turn, each but the last one; it begins a while after all are open, as a
// stripe that is left alone may not have joined before.
func (b *breaking) Landed(upTo uint64) error {
	b.striped.mu.Lock()
	defer b.striped.mu.Unlock()
	allOpen := !slices.ContainsFunc(b.carriers[:4], func(opened []*carrier) bool { return len(opened) == 0 })
	if upTo >= b.next && allOpen {
		if b.next = upTo + b.every; !b.begun {
			b.begun = true
			return b.sink.Landed(upTo)
		}
		opened := b.carriers[b.which]
		opened[len(opened)-1].Close()
		b.which = (b.which + 1) % 3
	}
	return b.sink.Landed(upTo)
}

func (b *breaking) Section(offset uint64) (link.Place, int64, error) { return b.sink.Section(offset) }

// Any subset of the stripes may die and come back: what was under way on them comes on the others.
func TestStripesDieAndComeBack(t *testing.T) {
	for _, plaintext := range []bool{false, true} {
		t.Run(fmt.Sprintf("plaintext=%t", plaintext), func(t *testing.T) {
			s := newStriped(t)
			s.pace = func(int) time.Duration { return 10 * time.Microsecond }
			if plaintext {
				s.pace = nil // spliced
			}
			file, content := randomFile(t, 96<<20)
			store := newSink(emptyFile(t), 0, 8<<20)
			supply := &source{file: file, length: uint64(len(content))}
			fed, taken := s.transfer(4, plaintext, 0, supply, &breaking{sink: store, striped: s, every: 8 << 20, next: 4 << 20})
			if fed != nil || taken != nil {
				t.Fatalf("fed: %v; taken: %v", fed, taken)
			}
			s.wantArrived(store, content)
			again := 0
			for _, opened := range s.carriers[:4] {
				again += len(opened) - 1
			}
			if again < 3 {
				t.Errorf("stripes were opened %d times again", again)
			}
		})
	}
}

// A stripe that is refused, because the neighbour has no place for it at that time, joins the link later.
func TestRefusedStripeJoinsLater(t *testing.T) {
	s := newStriped(t)
	s.pace, s.refuses = func(int) time.Duration { return 20 * time.Microsecond }, 2
	file, content := randomFile(t, 48<<20)
	supply, store := &source{file: file, length: uint64(len(content))}, newSink(emptyFile(t), 0, 8<<20)
	if fed, taken := s.transfer(3, false, 0, supply, store); fed != nil || taken != nil {
		t.Fatalf("fed: %v; taken: %v", fed, taken)
	}
	s.wantArrived(store, content)
	for stripe, opened := range s.carriers[:3] {
		if came := opened[len(opened)-1].came.Load(); came < 1<<20 {
			t.Errorf("stripe %d, opened %d times, brought %d bytes at last", stripe, len(opened), came)
		}
	}
}

// The link breaks when all its stripes have.
func TestLinkWithoutStripesIsBroken(t *testing.T) {
	s := newStriped(t)
	file, content := randomFile(t, 8<<20)
	store := &cutting{sink: newSink(emptyFile(t), 0, 8<<20), striped: s}
	fed, taken := s.transfer(4, true, 0, &source{file: file, length: uint64(len(content))}, store)
	if fed == nil || taken == nil {
		t.Errorf("fed: %v; taken: %v; want both to be broken", fed, taken)
	}
}

// cutting cuts all stripes at once.
type cutting struct {
	*sink
	*striped
}

func (c *cutting) Section(offset uint64) (link.Place, int64, error) { return c.sink.Section(offset) }

func (c *cutting) Landed(upTo uint64) error {
	c.striped.mu.Lock()
	defer c.striped.mu.Unlock()
	for _, opened := range c.carriers {
		for _, one := range opened {
			one.Close()
		}
	}
	return c.sink.Landed(upTo)
}

// If bytes can only go one after the other there is one stripe, and bytes out of order are refused.
func TestOneStripeIsInOrder(t *testing.T) {
	n := newNeighbours(t)
	parent, child := n.connect(t, wire.Hello{Stripes: 1}, 0)
	var sending sync.WaitGroup
	sending.Go(func() {
		header := wire.Header{Type: wire.Data, Length: 4, Offset: 8, TreeVersion: 1}
		_ = parent.Send(append(header.Append(nil), "data"...))
	})
	err := link.NewTaking(t.Context(), 0, newSink(emptyFile(t), 0, 1<<20), link.Options{}).Run(child)
	sending.Wait()
	parent.Close()
	if !errors.Is(err, wire.ErrProtocol) {
		t.Errorf("%v, want it refused", err)
	}
}

// Pieces may come in any order, but only so many apart from each other: a sender that leaves out every second byte would
// make the child note, and search, as many runs as it asked for bytes.
func TestPiecesApartAreBounded(t *testing.T) {
	const most = 4096
	n := newNeighbours(t)
	for pieces, want := range map[int]error{most: nil, most + 1: wire.ErrProtocol} {
		parent, child := n.connect(t, wire.Hello{Stripes: 2, Plaintext: true}, 0)
		var frames []byte
		for i := range pieces {
			frames = append(wire.Header{Type: wire.Data, Length: 1, Offset: uint64(2*i + 1), TreeVersion: 1}.Append(frames), 'x')
		}
		all := make([]byte, 2*pieces)
		frames = append(wire.Header{Type: wire.Data, Length: uint32(len(all)), TreeVersion: 1}.Append(frames), all...)
		frames = append(wire.Header{Type: wire.End, Length: wire.RootSize, Offset: uint64(len(all)), TreeVersion: 1}.Append(frames), make([]byte, wire.RootSize)...)
		var sending sync.WaitGroup
		sending.Go(func() { _ = parent.Send(frames) }) // the link may end meanwhile
		store := newSink(emptyFile(t), 0, 16<<20)
		err := link.NewTaking(t.Context(), 0, store, link.Options{Bounds: parallel.Bounds{Least: 1, Most: 2}}).Run(child)
		parent.Close()
		sending.Wait()
		if !errors.Is(err, want) || store.answer.Done != (want == nil) {
			t.Errorf("of %d pieces the link ended with %v, want %v; all is there: %t", pieces, err, want, store.answer.Done)
		}
	}
}
