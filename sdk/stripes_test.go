package sdk

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/parallel"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/wire/relay"
)

// striping is an agent that feeds a directory over several connections, all of which break again and again.
type striping struct {
	testing.TB
	agent, member identity.TLS
	listener      net.Listener
	from          link.Supply
	stripes       parallel.Bounds
	serving       sync.WaitGroup

	mu      sync.Mutex
	feeding *link.Feeding
	conns   []net.Conn // that the member has dialled
}

var theAgent = identity.ID{Role: identity.Agent, Name: "agent"}

func newStriping(t *testing.T, from link.Supply, stripes int) *striping {
	t.Helper()
	ca, err := identity.NewCA(identity.DefaultTrustDomain, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	security := func(id identity.ID) identity.TLS {
		source, err := identity.NewSelfIssued(ca, id)
		if err != nil {
			t.Fatal(err)
		}
		return identity.TLS{TrustDomain: identity.DefaultTrustDomain, Source: source}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &striping{
		TB: t, agent: security(theAgent), member: security(identity.ID{Role: identity.Member, Name: "member"}),
		listener: listener, from: from, stripes: parallel.Bounds{Least: stripes, Most: stripes},
	}
	s.serving.Go(s.accept)
	t.Cleanup(func() {
		listener.Close()
		s.serving.Wait()
	})
	return s
}

func (s *striping) accept() {
	for {
		raw, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.serving.Go(func() { s.serve(raw) })
	}
}

func (s *striping) serve(raw net.Conn) {
	asked, err := link.Accept(context.Background(), raw, s.agent)
	if err != nil {
		return
	}
	s.mu.Lock()
	if !asked.Join {
		if s.feeding != nil {
			s.feeding.Close()
		}
		s.feeding = link.NewFeeding(context.Background(), asked.From, s.from, link.Options{Bounds: s.stripes})
	}
	feeding := s.feeding
	s.mu.Unlock()
	if conn, err := asked.Welcome(relay.Welcome{TreeVersion: 1, From: asked.From}); err == nil && asked.Join {
		_ = feeding.Join(conn) // the link tells
	} else if err == nil {
		_ = feeding.Run(conn) // the member tells
	}
}

// DialContext implements link.Dialer.
func (s *striping) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, address)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conns = append(s.conns, conn)
	}
	return conn, err
}

// breakSome breaks connections until ctx is done: some of them, and now and then all.
func (s *striping) breakSome(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		time.Sleep(time.Duration(10+random.IntN(40)) * time.Millisecond)
		s.mu.Lock()
		for _, conn := range s.conns {
			if random.IntN(4) == 0 {
				conn.Close()
			}
		}
		s.mu.Unlock()
	}
}

// unbound is a store without a session.
type unbound struct{ *landingStore }

func (s unbound) Answer() link.Answer {
	s.receiving.mu.Lock()
	defer s.receiving.mu.Unlock()
	return link.Answer{Ack: s.offset, Level: relay.Received, Credit: relay.MaxOffset, TreeVersion: 1, Done: s.end != nil, Changed: s.changed}
}

// take takes over one link until that breaks.
func (s *striping) take(ctx context.Context, store *landingStore) error {
	from := store.offset
	open := func(ctx context.Context, hello relay.Hello) (*link.Conn, error) {
		hello.Stripes, hello.From = parallel.Most, from
		conn, _, err := link.Dial(ctx, s, s.listener.Addr().String(), s.member, theAgent, hello)
		return conn, err
	}
	conn, err := open(ctx, relay.Hello{})
	if err != nil {
		return err
	}
	return link.NewTaking(ctx, from, unbound{store}, link.Options{
		Bounds: parallel.Bounds{Least: 1, Most: parallel.Most},
		Open: func(ctx context.Context, stripe int) (*link.Conn, error) {
			if err := store.scattered(ctx); err != nil {
				return nil, err
			}
			return open(ctx, relay.Hello{Join: true, Stripe: uint8(stripe)})
		},
	}).Run(conn)
}

// memoryOf supplies an object's bytes out of one file.
type memoryOf struct {
	file *os.File
	end  link.End
}

func (m memoryOf) Next(offset, most uint64) (link.Portion, error) {
	portion := link.Portion{File: m.file, At: offset, Length: min(most, m.end.Length-offset), TreeVersion: 1}
	if offset == m.end.Length {
		portion.End = &m.end
	}
	return portion, nil
}
func (memoryOf) Sent(uint64, link.Portion)       {}
func (memoryOf) Acked(uint64, relay.Level) error { return nil }

// The files of a directory arrive as they were, however many connections bring them, whichever of these break, and even if the landing
// is begun again in between.
func TestStripesBringDirectories(t *testing.T) {
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 1))
		from, to := t.TempDir(), t.TempDir()
		for i := range 40 {
			dir := filepath.Join(from, "it", fmt.Sprint("d", random.IntN(5)))
			content := make([]byte, []int{0, 1, random.IntN(5000), random.IntN(1 << 20)}[random.IntN(4)])
			for i := range content {
				content[i] = byte(random.Uint32())
			}
			if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), content, 0o400)); err != nil {
				t.Fatal(err)
			}
		}
		source, supply := opened(t, filepath.Join(from, "it"))
		s := newStriping(t, supply, 2+random.IntN(7))
		ctx, stop := context.WithCancel(t.Context())
		var breaking sync.WaitGroup
		breaking.Go(func() { s.breakSome(ctx, rand.New(rand.NewPCG(seed, 2))) })
		for landed := false; !landed; {
			landing, err := object.Land(ctx, to, source.Info())
			if err != nil {
				t.Fatal(err)
			}
			store := &landingStore{receiving: &receiving{changed: make(chan struct{}), offset: landing.Offset()}, landing: landing}
			for tries := 0; tries < 5 && !store.isWhole(); tries++ {
				var storage *link.StorageError
				if err := s.take(ctx, store); errors.As(err, &storage) {
					t.Fatal(err)
				}
				if store.offset != landing.Offset() {
					t.Fatalf("%d bytes are told, %d have landed", store.offset, landing.Offset())
				}
			}
			if landed = store.isWhole(); landed {
				err = landing.Complete(supply.end.Length, supply.end.Root, false)
			} else {
				err = landing.Keep()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		stop()
		breaking.Wait()
		if _, there := opened(t, filepath.Join(to, "it")); there.end != supply.end {
			t.Errorf("seed %d: something else has landed", seed)
		}
	}
}

// opened opens an object, and supplies its bytes.
func opened(t *testing.T, path string) (*object.Source, memoryOf) {
	t.Helper()
	source, err := object.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { source.Close() })
	root, err := source.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	content := make([]byte, source.Info().Length)
	reader := source.NewReader()
	defer reader.Close()
	if err := reader.ReadAt(content, 0); err != nil {
		t.Fatal(err)
	}
	file, err := os.CreateTemp(t.TempDir(), "bytes")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	if _, err := file.Write(content); err != nil {
		t.Fatal(err)
	}
	return source, memoryOf{file, link.End{Length: source.Info().Length, Root: root}}
}
