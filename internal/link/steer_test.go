package link_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/parallel"
	"github.com/groupcast/groupcast/internal/link"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// gathering is a link that its parent dials; the child says how many stripes it is to have.
type gathering struct {
	testing.TB
	neighbours
	listener net.Listener
	store    link.Store

	mu     sync.Mutex
	taking *link.Taking
}

func (g *gathering) accept(ctx context.Context, taken chan<- error, running *sync.WaitGroup) {
	for {
		raw, err := g.listener.Accept()
		if err != nil {
			return
		}
		running.Go(func() { g.serve(ctx, raw, taken) })
	}
}

func (g *gathering) serve(ctx context.Context, raw net.Conn, taken chan<- error) {
	asked, err := link.Accept(ctx, raw, g.child)
	if err != nil {
		return
	}
	g.mu.Lock()
	if !asked.Join {
		g.taking = link.NewTaking(ctx, 0, g.store, link.Options{Bounds: parallel.Bounds{Least: 1, Most: parallel.Most}})
	}
	taking := g.taking
	g.mu.Unlock()
	conn, err := asked.Welcome(wire.Welcome{TreeVersion: 1})
	if err != nil {
		return
	}
	if asked.Join {
		_ = taking.Join(conn)
		return
	}
	taken <- taking.Run(conn)
}

func (g *gathering) open(ctx context.Context, stripe int, join bool) (*link.Conn, error) {
	hello := wire.Hello{Offer: true, Join: join, Stripe: uint8(stripe), Stripes: parallel.Most}
	conn, _, err := link.Dial(ctx, &net.Dialer{}, g.listener.Addr().String(), g.parent, childID, hello)
	return conn, err
}

// living returns how many stripes the child has.
func (g *gathering) living() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.taking == nil {
		return 0
	}
	return g.taking.Living()
}

func (g *gathering) wantStripes(want int) {
	g.Helper()
	for deadline := time.Now().Add(30 * time.Second); g.living() != want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			g.Fatalf("there are %d stripes, want %d", g.living(), want)
		}
	}
}

// held is a sink that asks for nothing more until it is released.
type held struct {
	*sink
	free chan struct{}
}

func (h *held) Answer() link.Answer {
	answer := h.sink.Answer()
	select {
	case <-h.free:
	default:
		answer.Credit, answer.Changed = 256<<10, h.free
	}
	return answer
}

// A steered link has as many stripes as it is told, when that is more and when it is fewer, and loses nothing when that changes.
func TestSteer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file, content := randomFile(t, 24<<20)
	store := &held{newSink(emptyFile(t), 0, 4<<20), make(chan struct{})}
	g := &gathering{TB: t, neighbours: newNeighbours(t), listener: listener, store: store}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var running sync.WaitGroup
	taken := make(chan error, 1)
	running.Go(func() { g.accept(ctx, taken, &running) })
	defer running.Wait()
	defer listener.Close()

	first, err := g.open(ctx, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	feeding := link.NewFeeding(ctx, 0, &source{file: file, length: uint64(len(content))}, link.Options{
		Bounds: parallel.Bounds{Least: 1, Most: parallel.Most}, Steered: true,
		Open: func(ctx context.Context, stripe int) (*link.Conn, error) { return g.open(ctx, stripe, true) },
	})
	fed := make(chan error, 1)
	go func() { fed <- feeding.Run(first) }()
	g.wantStripes(1)
	for _, stripes := range []int{4, 1, 6, 2} {
		feeding.Steer(stripes)
		g.wantStripes(stripes)
	}
	close(store.free)
	if err := <-fed; err != nil {
		t.Errorf("fed: %v", err)
	}
	if err := <-taken; err != nil {
		t.Errorf("taken: %v", err)
	}
	s := &striped{TB: t}
	s.wantArrived(store.sink, content)
}
