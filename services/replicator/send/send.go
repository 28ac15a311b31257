package send

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	limits "golang.org/x/time/rate"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/multicast"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/printable"
	"github.com/groupcast/groupcast/internal/udp"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// ErrNobody says that nobody joined.
var ErrNobody = errors.New("nobody joined")

// BrokenOffError is the cause with which a context ends a sender of one part because the whole cannot go on. The sender tells its
// receivers why.
type BrokenOffError struct{ Err error }

func (e *BrokenOffError) Error() string { return e.Err.Error() }
func (e *BrokenOffError) Unwrap() error { return e.Err }

// Config is what a sender is told.
type Config struct {
	Place multicast.Place
	// Key is the group's: whoever has it may send and receive.
	Key []byte
	// NameKey returns the key by which a receiver proves that a name is its own, and Unproven whether it is believed without that: it may
	// be of an earlier version, and may not. Each may be nil: no receiver is asked, or all are.
	NameKey  func(name string) []byte
	Unproven func(name string) bool
	// Turn returns what the managers have changed since it began. It may be nil.
	Turn func() Turn
	// Source is what is replicated.
	Source Source
	// Receivers is how many are waited for, those that refuse among them; the first that joins begins it if it is 0.
	Receivers int
	// Wait is how long they are waited for. When it has passed, it begins with those that
	// are there; zero waits for ever.
	Wait time.Duration
	// Ceiling is the most bytes per second, headers included.
	Ceiling float64
	// Datagram is the largest that is sent; zero is what the interface carries.
	Datagram int
	Slow     algo.Slow
	// Patience is how long a receiver may be silent before it is given up.
	Patience time.Duration
	// Leaves has the sender say nothing at its end to receivers that it has given up: others carry the rest to them.
	Leaves bool
	// Exclusive has only one of several senders with the key go on. It is for keys that people hand on: managers make
	// one for each replication.
	Exclusive bool
	// Stay is asked when the sender would end, and returns until when it has to wait for receivers that may still come. It may be nil.
	Stay func() time.Time
}

// Source is what is replicated.
type Source interface {
	Info() object.Info
	// Head is how many bytes of it say where the others belong: before receivers have these, they have no place for others.
	Head() uint64
	// ReadAt fills p with the bytes from offset on.
	ReadAt(p []byte, offset uint64) error
	// Holes are the ranges of zeros that need not be read, in order. They are asked for once, before anything is announced.
	Holes() ([]object.Hole, error)
	// Changed says why what was read is of no use. It may take long, and is called beside the others.
	Changed() error
}

// Env is what a sender runs in.
type Env struct {
	Log *slog.Logger
	// Progress is told how far it is, now and then. It may be nil.
	Progress func(Progress)
	// Begins is told of how it begins, before anything is sent; an error of its ends it. It may be nil.
	Begins func(Beginning) error
}

// Beginning is with whom a replication begins, and how.
type Beginning struct {
	Joined, Refused int
	Datagram        int // bytes of the largest
	Sender          netip.AddrPort
}

// Progress is how far a replication is.
type Progress struct {
	// Sent is how many bytes of the source were sent at least once: not those that nobody missed.
	Sent, Length uint64
	Members      []Receipt
	// Root is zero until all was read.
	Root object.Root
	// Window is how many packets may be on their way.
	Window int
	Counts algo.Counts
	// Bytes is how many were sent to the group, in all datagrams.
	Bytes uint64
	// Offload is what the kernel does of the sending.
	Offload udp.Offload
}

// Receipt is how it went for a member.
type Receipt struct {
	Name, LAN string
	Address   netip.AddrPort
	Outcome   algo.Outcome
	Reason    string
	Detail    string // what it said of why it refused, or failed
	Landed    uint64 // bytes, without a gap
	Resumed   uint64 // bytes that it had when it joined
	Lost      float64
	Detached  bool
	Silent    bool
}

// Result is how a replication went.
type Result struct {
	Info     object.Info
	Root     object.Root
	Sent     uint64 // as in Progress
	Members  []Receipt
	Took     time.Duration // from the first packet on
	Window   int           // as in Progress, at the end
	Counts   algo.Counts
	Bytes    uint64
	Datagram int
	Offload  udp.Offload
}

// Run replicates a source to all receivers that join, and returns once it is known how it went for each.
func Run(ctx context.Context, env Env, config Config) (Result, error) {
	socket, err := multicast.Open(config.Place, 0)
	if err != nil {
		return Result{}, &NetworkError{err}
	}
	defer func() { _ = socket.Close() }()
	s, err := newSession(env, config, socket)
	if err != nil {
		return Result{}, err
	}
	s.footing, _ = multicast.FootingOf(socket, config.Place) // where it is gone already, that is seen when something is sent
	if config.Exclusive {
		if s.others, err = multicast.Join(config.Place); err != nil {
			return Result{}, &NetworkError{err}
		}
		defer func() { _ = s.others.Close() }()
	}
	err = s.run(ctx)
	return s.result(), err
}

// session is one replication.
type session struct {
	env     Env
	config  Config
	socket  *udp.Socket
	others  *udp.Socket // hears other senders with the key; nil if there can be none
	rivals  rivals      // of the goroutine that hears them
	stop    context.CancelCauseFunc
	salt    wire.Salt
	private *ecdh.PrivateKey
	group   *wire.Box         // of the goroutine that sends
	network network           // of the same
	footing multicast.Footing // where that is
	largest int               // datagram that is tried
	holes   []object.Hole
	zeros   uint64 // bytes in holes
	source  *reader
	checked chan error // whether the source has changed since all of it was read; nil before that

	mu       sync.Mutex
	rival    *RivalError // has had this sender end; it begins nothing any more
	secrets  secrets
	out      []string // names of receivers that have no part any more
	joined   map[[wire.PublicSize]byte]*peer
	joins    map[[wire.PublicSize]byte]uint64    // after the highest number of a JOIN, by its key
	ousted   map[[wire.PublicSize]byte]time.Time // receivers whose place another took before it has begun, and when
	coming   map[string]time.Time                // receivers that still read what they have, and when that was heard
	refused  map[who]*refusal
	peers    []*peer // in the order of their numbers, once it has begun
	rules    *algo.Sender
	shape    algo.Shape
	datagram int
	number   uint64 // of the next datagram to the group, before it has begun
	flushed  uint64 // bytes that were sent to the group since
	wake     chan struct{}
	started  time.Time
	began    time.Time
	took     time.Duration
	shown    time.Time
	root     object.Root
	// hasWarned says that it was logged that a receiver joins under a name that it does not prove.
	hasWarned  bool
	turnedAway []who // of whom it was logged that there is no room for them
}

// peer is a member.
type peer struct {
	wire.Joining
	who
	id     algo.ID
	at     netip.AddrPort
	up     *wire.Box
	down   *wire.Box
	number uint64 // of the next to it alone
	heard  uint64 // after the highest from it
	may    *limits.Limiter
	seen   time.Time    // when it joined, or said so again, last
	isOld  bool         // it began anew as another
	since  time.Time    // when it did
	isOut  bool         // it has no part any more
	secret *wire.Secret // under which it joined
}

func newSession(env Env, config Config, socket *udp.Socket) (*session, error) {
	if err := object.CheckName(config.Source.Info().Name); err != nil {
		return nil, err
	}
	holes, err := config.Source.Holes()
	if err != nil {
		return nil, err
	}
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	s := &session{
		env: env, config: config, socket: socket, private: private, started: time.Now(),
		joined: map[[wire.PublicSize]byte]*peer{}, joins: map[[wire.PublicSize]byte]uint64{},
		ousted: map[[wire.PublicSize]byte]time.Time{}, coming: map[string]time.Time{}, refused: map[who]*refusal{}, wake: make(chan struct{}, 1), holes: holes,
	}
	for _, hole := range holes {
		s.zeros += hole.End - hole.First
	}
	if _, err := rand.Read(s.salt[:]); err != nil {
		return nil, fmt.Errorf("draw a salt: %w", err)
	}
	secret := wire.NewSecret(config.Key, s.salt)
	s.secrets, s.group = secrets{current: &secret, newest: config.Key}, secret.Group()
	if s.largest, err = largest(config); err != nil {
		return nil, err
	}
	return s, nil
}

// run announces, waits, sends, and ends.
func (s *session) run(ctx context.Context) error {
	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer s.rest() // after the farewell: a source that does not answer keeps nobody waiting for that
	s.stop = stop
	tasks, inner := errgroup.WithContext(inner)
	tasks.Go(func() error { return hear(s.socket, s.take) })
	if s.others != nil {
		tasks.Go(func() error { return hear(s.others, s.another) })
	}
	tasks.Go(func() error {
		defer func() {
			stop(nil)
			_ = s.socket.SetReadDeadline(time.Now())
			if s.others != nil {
				_ = s.others.SetReadDeadline(time.Now())
			}
		}()
		err := s.gather(inner)
		if err == nil {
			err = s.send(inner)
		}
		if errors.As(err, new(*RivalError)) {
			s.yield(ctx)
		}
		return err
	})
	err := tasks.Wait()
	if ctx.Err() != nil {
		why := ""
		if broken := new(BrokenOffError); errors.As(context.Cause(ctx), &broken) {
			why = broken.Error()
		}
		s.farewell(why)
		return context.Cause(ctx)
	}
	if err != nil && !errors.As(err, new(*NetworkError)) && !errors.As(err, new(*RivalError)) {
		s.farewell(err.Error())
	}
	return err
}

// hear hands on what comes to a socket, until its deadline passes.
func hear(socket *udp.Socket, take func(datagram []byte, from netip.AddrPort)) error {
	if err := socket.Receive(take, func() {}); !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return nil
}

// result is how it went.
func (s *session) result() Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	result := Result{
		Info: s.config.Source.Info(), Root: s.root, Members: s.receipts(), Took: s.took,
		Datagram: s.datagram, Bytes: s.flushed, Offload: s.socket.Offload(),
	}
	if s.rules != nil {
		result.Window, result.Counts, result.Sent = s.rules.Window(), s.rules.Counts(), s.sent()
	}
	return result
}

// sent is how many bytes were sent at least once. The caller has the lock.
func (s *session) sent() uint64 {
	return min(uint64(s.rules.Passed())*s.shape.Block(), s.shape.Length) - min(uint64(s.rules.Began())*s.shape.Block(), s.shape.Length)
}

// explained is what a member said of why it failed. The caller has the lock.
func (s *session) explained(p *peer, status algo.Status) string {
	if said := s.refused[p.who]; said != nil && status.Outcome == algo.Failed {
		return said.Detail
	}
	return ""
}

// receipts say how it went, or goes, for each. The caller has the lock.
func (s *session) receipts() (all []Receipt) {
	refusals := s.refusals()
	for _, p := range s.peers {
		if p.isOld || slices.ContainsFunc(refusals, p.isSame) {
			continue
		}
		status := s.rules.Member(p.id)
		all = append(all, Receipt{
			Name: p.called(), LAN: printable.Text(p.LAN), Address: p.at, Outcome: status.Outcome, Reason: status.Reason.String(), Detail: s.explained(p, status),
			Landed: min(uint64(status.Blocks)*s.shape.Block(), s.shape.Length), Resumed: min(p.Have, s.shape.Length), Lost: status.Lost,
			Detached: status.Detached, Silent: status.Silent,
		})
	}
	for _, r := range refusals {
		all = append(all, r.receipt())
	}
	return all
}
