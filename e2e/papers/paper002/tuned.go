package paper002

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	labLink "github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/internal/algo/parallel"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// tuned is what a link of the product carried.
type tuned struct {
	rate    labLink.Rate
	choices []string // the choices of its tuner, in words, each with its time
}

// linkPort is where the parent listens.
const linkPort = 7410

var (
	parentID = identity.ID{Role: identity.Agent, Name: "florida"}
	childID  = identity.ID{Role: identity.Agent, Name: "virginia"}
)

// trial is a link of the product between two machines.
type trial struct {
	from, to      *lab.Host
	port          uint16
	parent, child identity.TLS
	bounds        parallel.Bounds
	congestion    string
	size          labLink.Bytes
	source        *os.File
	store         *store
	contacts      *link.Contacts // what the child knows its parent by already; nil if it does not
	start         time.Time

	mu      sync.Mutex
	feeding *link.Feeding
	choices []string
}

// tune returns how fast a link carries the paper's bytes by itself, from the first SYN to the last
// byte: only the bounds of its number of stripes and the congestion control are given.
func (n *network) tune(ctx context.Context, congestion string, bounds parallel.Bounds) (tuned, error) {
	t := &trial{from: n.florida, to: n.virginia, port: linkPort, bounds: bounds, congestion: congestion, size: transferred}
	took, err := t.run(ctx)
	return tuned{labLink.Rate(float64(t.size) * 8 / took.Seconds()), t.choices}, err
}

// run returns how long the link takes, from the first SYN to the last byte in its file.
func (t *trial) run(ctx context.Context) (time.Duration, error) {
	end, err := t.serve(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	err = t.take(ctx)
	return t.store.ended.Sub(t.start), err
}

// serve has the parent wait for its child, until end is called.
func (t *trial) serve(ctx context.Context) (end func(), err error) {
	if err := t.prepare(); err != nil {
		return nil, err
	}
	listener, err := t.from.Listen(ctx, "tcp4", t.from.At(t.port), lab.Congestion(t.congestion))
	if err != nil {
		return nil, errors.Join(err, t.source.Close(), t.store.to.Close())
	}
	var running sync.WaitGroup
	running.Go(func() { t.accept(ctx, listener, &running) })
	return func() {
		listener.Close()
		running.Wait()
		t.source.Close()
		t.store.to.Close()
	}, nil
}

// meet has the child know its parent before it asks for anything, as agents know those that they measure.
func (t *trial) meet(ctx context.Context) error {
	t.contacts = link.NewContacts(dialer{t.to, t.congestion}, t.child, link.AgentsKeep)
	_, err := t.contacts.Prove(ctx, t.from.At(t.port), parentID)
	return err
}

// prepare makes what both ends need.
func (t *trial) prepare() error {
	ca, err := identity.NewCA(identity.DefaultTrustDomain, time.Now)
	if err != nil {
		return err
	}
	of := func(id identity.ID) identity.TLS {
		source, failed := identity.NewSelfIssued(ca, id)
		err = errors.Join(err, failed)
		return identity.TLS{TrustDomain: identity.DefaultTrustDomain, Source: source}
	}
	t.parent, t.child = of(parentID), of(childID)
	if err != nil {
		return err
	}
	if t.source, err = unnamed(); err != nil {
		return err
	}
	if err := t.source.Truncate(int64(t.size)); err != nil {
		return errors.Join(err, t.source.Close())
	}
	t.store, err = newStore(t.size)
	if err != nil {
		return errors.Join(err, t.source.Close())
	}
	return nil
}

// unnamed creates a file in memory that disappears with its descriptor.
func unnamed() (*os.File, error) {
	file, err := os.CreateTemp("/dev/shm", "groupcast-")
	if err != nil {
		return nil, err
	}
	return file, os.Remove(file.Name())
}

// accept feeds the child over each stripe that it dials.
func (t *trial) accept(ctx context.Context, listener net.Listener, running *sync.WaitGroup) {
	for {
		raw, err := listener.Accept()
		if err != nil {
			return
		}
		running.Go(func() { t.feed(ctx, raw) })
	}
}

func (t *trial) feed(ctx context.Context, raw net.Conn) {
	asked, err := link.Accept(ctx, raw, t.parent)
	if err != nil {
		return
	}
	t.mu.Lock()
	if !asked.Join {
		t.feeding = link.NewFeeding(ctx, asked.From, supply{t.source, uint64(t.size)}, link.Options{Bounds: t.bounds, Chosen: t.note})
	}
	feeding := t.feeding
	t.mu.Unlock()
	conn, err := asked.Welcome(wire.Welcome{TreeVersion: 1})
	switch {
	case err != nil:
	case asked.Join:
		_ = feeding.Join(conn)
	default:
		_ = feeding.Run(conn) // the child says how it went
	}
}

func (t *trial) note(choice parallel.Choice) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.choices = append(t.choices, time.Since(t.start).Round(100*time.Millisecond).String()+": "+choice.Explain())
}

// take has the child take everything.
func (t *trial) take(ctx context.Context) error {
	t.start = time.Now()
	first, err := t.dial(ctx, wire.Hello{})
	if err != nil {
		return err
	}
	return link.NewTaking(ctx, 0, t.store, link.Options{Bounds: t.bounds, Open: func(ctx context.Context, stripe int) (*link.Conn, error) {
		return t.dial(ctx, wire.Hello{Stripe: uint8(stripe), Join: true})
	}}).Run(first)
}

func (t *trial) dial(ctx context.Context, hello wire.Hello) (*link.Conn, error) {
	hello.Stripes, hello.Plaintext = parallel.Most, true
	if t.contacts != nil {
		conn, _, err := t.contacts.Ask(ctx, t.from.At(t.port), parentID, hello, link.Answer{})
		return conn, err
	}
	conn, _, err := link.Dial(ctx, dialer{t.to, t.congestion}, t.from.At(t.port), t.child, parentID, hello)
	return conn, err
}

type dialer struct {
	*lab.Host
	congestion string
}

func (d dialer) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	return d.Dial(ctx, "tcp4", address, lab.Congestion(d.congestion))
}

// supply is zeros.
type supply struct {
	file *os.File
	size uint64
}

func (s supply) Next(offset, most uint64) (link.Portion, error) {
	portion := link.Portion{File: s.file, At: offset, Length: min(most, s.size-offset), TreeVersion: 1}
	if portion.Length == 0 && offset == s.size {
		portion.End = &link.End{Length: offset}
	}
	return portion, nil
}

func (supply) Sent(uint64, link.Portion)      {}
func (supply) Acked(uint64, wire.Level) error { return nil }

// store keeps what comes in a file.
type store struct {
	to   *os.File
	size uint64

	mu      sync.Mutex
	landed  uint64
	ended   time.Time
	changed chan struct{}
}

func newStore(size labLink.Bytes) (*store, error) {
	to, err := unnamed()
	return &store{to: to, size: uint64(size), changed: make(chan struct{})}, err
}

func (s *store) Section(offset uint64) (link.Place, int64, error) {
	return link.Place{File: s.to, At: int64(offset)}, int64(s.size), nil
}

func (s *store) Landed(upTo uint64) error {
	s.update(func() { s.landed = upTo })
	return nil
}

// came is how many bytes are there.
func (s *store) came() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.landed
}

func (s *store) End(link.End) error {
	s.update(func() { s.ended = time.Now() })
	return nil
}

func (s *store) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *store) Answer() link.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return link.Answer{
		Ack: s.landed, Level: wire.Relayed, Credit: s.size, TreeVersion: 1, Done: !s.ended.IsZero(), Changed: s.changed,
	}
}
