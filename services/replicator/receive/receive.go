package receive

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/multicast"
	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/pulse"
	"github.com/groupcast/groupcast/internal/udp"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// Why a replica did not come to be.
var (
	ErrDamaged      = errors.New("what came is not what was sent")
	ErrSenderGone   = errors.New("the sender is gone")
	ErrSenderFailed = errors.New("the sender failed")
	ErrNotHeard     = errors.New("nothing is heard of a sender")
	ErrTooLarge     = errors.New("the path is too narrow")
	ErrNoNetwork    = errors.New("no way to the group")
)

// Config is what a replica is told.
type Config struct {
	Place multicast.Place
	// Key is the group's: whoever has it may send and receive. Next returns the newest that the managers have made, which may be
	// another while something is received. It is nil where there are no managers.
	Key  []byte
	Next func() []byte
	// Name is what the sender calls this replica by, and LAN where it is. NameKey is what it proves the name with; nil where
	// senders do not ask for that.
	Name, LAN string
	NameKey   []byte
	// SenderProves has only a sender be believed that has NameKey, too. Senders of earlier versions do not show that.
	SenderProves bool
	// Find returns what may be there already, once it is known what is replicated; nil is that nothing
	// may be. It may be nil itself.
	Find func(ctx context.Context, info object.Info) (Landing, error)
	// Open opens what lands, once it is known what.
	Open func(ctx context.Context, info object.Info) (Landing, error)
	// Waits has a replica that finds the same object being received there already wait for that, instead of refusing.
	Waits bool
	// Durable has what landed be on disk before it counts as complete.
	Durable bool
	// Leaves has a replica that is interrupted tell the sender not to expect it again.
	Leaves bool
	// Await is how long a sender is waited for; zero waits for ever.
	Await time.Duration
	// Path names what the replica lands on. DiskPatience is how long the disk of that may not answer; zero is for ever. After that the call
	// that stands is left behind: Left is told which one, of which disk, and since when it has stood. The function that Left returns is
	// called if the call returns after all. Left may be nil.
	Path         string
	DiskPatience time.Duration
	Left         func(disk pulse.Disk, what string, since time.Time) (answers func())
	// Patience is how long a sender may be silent before it is given up; zero is for ever, where managers know whether it is there.
	Patience time.Duration
}

// Env is what a receiver runs in.
type Env struct {
	Log *slog.Logger
	// Begins is told which sender is heard and what it sends, and again when another takes over. It may be nil.
	Begins func(sender netip.AddrPort, info object.Info)
	// Waits is called when the sender that was heard does not answer, or fell silent before it began, for so long that it
	// may never: the replica goes on to wait, for it or another. It may be nil.
	Waits func()
	// Progress is told how far it is, at the beginning and now and then. It may be nil.
	Progress func(Progress)
}

func (e Env) waits() {
	if e.Waits != nil {
		e.Waits()
	}
}

// Progress is how far a replica is, in bytes.
type Progress struct {
	// Landed is how much is there without a gap, what was there before and zeros among it.
	Landed, Length uint64
	Stats          Stats
	// Silent is for how long nothing was heard of the sender.
	Silent time.Duration
}

// Landing is where bytes land. One goroutine uses it.
type Landing interface {
	// Offset is before which all bytes are there.
	Offset() uint64
	// Write takes the next bytes; Zeros takes zeros as those.
	Write(p []byte) (int, error)
	Zeros(count uint64) error
	// Ahead writes bytes that are not next, if it can, and Adopt makes them the next ones.
	Ahead(offset uint64, p []byte) (taken bool, err error)
	Adopt(count uint64) error
	// Complete compares length and root and has the whole appear.
	Complete(length uint64, root object.Root, durable bool) error
	// Keep ends the landing and leaves what is there to a later one, Remove does not.
	Keep() error
	Remove() error
}

// Receipt is what became of a replication here.
type Receipt struct {
	Info object.Info
	Root object.Root
	// Resumed is how many bytes were there before, Landed how many are there without a gap.
	Resumed, Landed uint64

	Took  time.Duration // from the WELCOME on
	Done  time.Time     // when all was there: how long the sender is waited for after that is none of it
	Stats Stats
}

// Stats is what came.
type Stats struct {
	Datagrams, Forged, Rebuilt, Spilled, Reports uint64
	// Came is how many bytes of packets and parity were taken.
	Came    uint64
	Offload udp.Offload
}

// after adds what came before all began anew.
func (s Stats) after(before Stats) Stats {
	s.Datagrams, s.Forged, s.Rebuilt = s.Datagrams+before.Datagrams, s.Forged+before.Forged, s.Rebuilt+before.Rebuilt
	s.Spilled, s.Reports, s.Came = s.Spilled+before.Spilled, s.Reports+before.Reports, s.Came+before.Came
	return s
}

// mostWrong is how often what was there can be of something else: what is whole, and what an earlier replica left unfinished.
const mostWrong = 2

// from receives from a sender that was heard.
func from(ctx context.Context, env Env, config Config, ear, mouth *udp.Socket, heard announced) (Receipt, error) {
	var before Stats
	for wrong := 0; ; wrong++ {
		landing, err := prepare(ctx, config, mouth, heard, wrong > 0)
		if err != nil {
			return Receipt{Info: heard.info()}, err
		}
		receipt, err := replicate(ctx, env, config, ear, mouth, heard, landing, wrong == mostWrong)
		receipt.Stats = receipt.Stats.after(before)
		if !errors.Is(err, errOther) {
			return receipt, err
		}
		env.Log.Info("what was there is of something else: it is dropped", "object", heard.Name)
		before = receipt.Stats
	}
}

// goneError says that a sender fell silent before it began. What it had announced may have been sent again by anybody
// who heard it: no key is needed for that.
type goneError struct {
	last uint64 // the number of its last announcement
}

func (*goneError) Error() string { return "the sender was gone before it began" }

// errAgain says that a sender fell silent, and that one with the same object begins.
var errAgain = errors.New("the sender was started again")

// errYielded says that a sender has ended because another goes on.
var errYielded = errors.New("another sender goes on")

// goneAfter is how long a sender is silent that is gone, if it has not begun or another does: it says several times a second that it is there.
const goneAfter = 3 * time.Second

// errOther says that what was there before is not of what was announced: it begins anew.
var errOther = errors.New("what was there is of something else")

// replicate receives what was announced.
func replicate(ctx context.Context, env Env, config Config, ear, mouth *udp.Socket, heard announced, landing *watched, isLast bool) (Receipt, error) {
	r, err := newReplica(env, config, ear, mouth, heard, landing)
	if err != nil {
		return Receipt{Info: heard.info()}, errors.Join(err, landing.Keep())
	}
	r.isLast = isLast
	err = r.run(ctx)
	if r.ended != nil && !r.isSettled { // a farewell may have come while it was settled
		err = r.ended
	}
	if errors.Is(err, errMoved) && r.rules != nil && !r.isSettled {
		err = &movedError{r}
	}
	receipt := r.receipt()
	switch {
	case r.isSettled:
		receipt.Landed = receipt.Info.Length
	case errors.Is(err, noroom.Err): // others need the room
		err = errors.Join(err, landing.Remove())
	default:
		receipt.Landed = landing.Offset()
		err = errors.Join(err, landing.Keep())
	}
	return receipt, err
}

// replica is one object that is received.
type replica struct {
	env    Env
	config Config
	ear    *udp.Socket
	mouth  *udp.Socket
	heard  announced
	secret wire.Secret // under which it joins
	public []byte
	up     *wire.Box
	down   *wire.Box
	ring   *ring
	life   context.Context // of whoever wants it, on this ground

	mu         sync.Mutex
	welcomed   bool
	shape      algo.Shape
	rules      *algo.Receiver
	blocks     *blocks
	landing    Landing
	disk       *watched  // that it lands on
	toldAlive  time.Time // while that stands
	number     uint64    // of the next that is sent
	nextLetter uint64    // after the highest that came from the sender to this member alone
	id         algo.ID
	began      time.Time
	pollHeard  time.Time
	looked     time.Time // when somebody asked for how long nothing was heard
	// lastAnnounced is the highest of an announcement while it was not welcomed.
	lastAnnounced uint64
	asking        time.Time // since when it asks a sender that has not begun, or since one has begun
	root          object.Root
	resumed       uint64
	ended         error
	failedAt      time.Time // when this machine could not go on; zero if it can
	isSettled     bool
	done          time.Time // when it was settled
	isLast        bool      // what was there before is not tried again
	isOver        bool
	completing    sync.WaitGroup
	stats         Stats
	stop          context.CancelFunc
	shown         time.Time
}

func newReplica(env Env, config Config, ear, mouth *udp.Socket, heard announced, landing *watched) (*replica, error) {
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	secret := heard.secret()
	pair, err := secret.Pair(private, heard.Public, heard.mutual(config))
	if err != nil {
		return nil, err
	}
	return &replica{
		env: env, config: config, ear: ear, mouth: mouth, heard: heard, landing: landing, disk: landing, resumed: landing.Offset(),
		secret: secret, public: private.PublicKey().Bytes(), up: pair.Up(), down: pair.Down(), ring: newRing(heard),
		began: time.Now(), pollHeard: time.Now(), lastAnnounced: heard.number, asking: time.Now(),
	}, nil
}

// run joins and receives until it is over.
func (r *replica) run(ctx context.Context) error {
	r.life = ctx
	ctx, r.stop = context.WithCancel(ctx)
	defer r.stop()
	tasks, inner := errgroup.WithContext(ctx)
	tasks.Go(func() error { return r.serve(r.mouth, r.letter, func() {}) })
	tasks.Go(r.listen)
	tasks.Go(func() error { return r.keepJoining(inner) })
	tasks.Go(func() error {
		select {
		case <-r.life.Done():
			if !errors.Is(context.Cause(ctx), errMoved) {
				r.leave()
			}
		case <-inner.Done():
		}
		<-inner.Done()
		r.mu.Lock()
		r.isOver = true
		r.mu.Unlock()
		now := time.Now()
		return errors.Join(r.mouth.SetReadDeadline(now), r.ear.SetReadDeadline(now))
	})
	err := tasks.Wait()
	r.completing.Wait()
	if ctx.Err() != nil && !r.isSettled && err == nil && r.ended == nil {
		err = context.Cause(ctx)
	}
	return err
}

// listen takes what is sent to the group, and has it land. If the disk is given up the sender is told, and is heard all the same.
func (r *replica) listen() error {
	err := r.disk.landing(func() error { return r.serve(r.ear, r.take, r.catchUp) })
	if !errors.Is(err, ErrDiskStalled) {
		return err
	}
	r.mu.Lock()
	r.fail(err)
	r.mu.Unlock()
	return r.serve(r.ear, r.take, func() {})
}

// serve takes what comes to a socket, and does what is due meanwhile, and something more then.
func (r *replica) serve(socket *udp.Socket, take func(datagram []byte, from netip.AddrPort), more func()) error {
	for {
		r.mu.Lock()
		isOver, due := r.isOver, r.due()
		r.mu.Unlock()
		if isOver {
			return nil
		}
		if err := socket.SetReadDeadline(due); err != nil {
			return err
		}
		_ = socket.ReceiveOnce(take)
		r.tick(time.Now())
		more()
	}
}

const (
	joinEvery = 50 * time.Millisecond
	// unanswered is after how long it is said that a sender does not answer. Where there are managers, one that waits for others answers
	// after 5 s.
	unanswered = 10 * time.Second
	idle       = 100 * time.Millisecond
	// busy is how long what comes is waited for while there is something to do.
	busy = time.Millisecond
)

// keepJoining says that this replica is there until it is welcomed, and ends when the sender is gone.
func (r *replica) keepJoining(ctx context.Context) error {
	ticker := time.NewTicker(joinEvery)
	defer ticker.Stop()
	var told time.Time
	for {
		r.mu.Lock()
		silent := r.silence(time.Now())
		done := r.isOver || r.isSettled && silent > time.Second || r.hasTold(silent)
		welcomed, last, asking, hasBegun := r.welcomed, r.lastAnnounced, r.asking, r.heard.Datagram > 0
		if !welcomed {
			r.join()
		}
		r.mu.Unlock()
		if !welcomed && told != asking && time.Since(asking) > unanswered {
			told = asking
			r.complain(hasBegun)
		}
		switch {
		case done:
			r.finish(nil)
			return nil
		case !welcomed && silent > goneAfter:
			r.finish(&goneError{last})
			return nil
		case r.config.Patience > 0 && silent > r.config.Patience:
			r.finish(fmt.Errorf("%w: nothing came for %v; what is there is kept, receive again to go on", ErrSenderGone, silent.Round(time.Second)))
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// complain says what may be the matter. A sender that has not begun answers nobody.
func (r *replica) complain(hasBegun bool) {
	if hasBegun {
		r.env.Log.Warn("the sender is heard and does not answer: does a firewall drop UDP to it?", "sender", r.heard.Sender.String())
	} else {
		r.env.Log.Warn("the sender has not begun: it waits for others, or does not hear this machine, as where a firewall drops UDP", "sender", r.heard.Sender.String())
	}
	r.env.waits()
}

const (
	// farewells is how often it is said that a replica leaves, and farewellEvery is how far apart.
	farewells     = 3
	farewellEvery = 20 * time.Millisecond
)

// leave tells the sender that nobody is here any more, so that it does not wait; or how it ended, which is waited for while the whole is
// brought on disk.
func (r *replica) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.config.Leaves || r.rules == nil {
		return
	}
	if r.rules.State() == wire.Settling {
		r.mu.Unlock()
		r.completing.Wait()
		r.mu.Lock()
	}
	switch {
	case r.isSettled, !r.failedAt.IsZero():
	case r.ended != nil && !errors.Is(r.ended, errOther): // nobody begins anew
		return
	default:
		r.ended = context.Canceled
		r.rules.Enter(wire.Failed, wire.Left, object.Root{}, time.Now())
	}
	for range farewells {
		now := time.Now()
		r.rules.Tell(now)
		r.report(now)
		r.mu.Unlock()
		time.Sleep(farewellEvery)
		r.mu.Lock()
	}
}

// join sends a JOIN. The caller has the lock.
func (r *replica) join() {
	r.joinAs(wire.Joining{Buffer: uint32(r.ear.Buffer()), Have: r.resumed})
}

// joinAs sends a JOIN that says something. The caller has the lock.
func (r *replica) joinAs(j wire.Joining) {
	_ = r.mouth.Send(r.secret.JoinAs(r.number, r.public, r.heard.as(r.config, r.public, j)), r.heard.Sender)
	r.number++
}

// due is when something is to be done in any case. The caller has the lock.
func (r *replica) due() time.Time {
	now := time.Now()
	if r.isBehind() {
		return now.Add(busy)
	}
	if r.rules != nil {
		if due := r.rules.Due(); !due.IsZero() && due.Before(now.Add(idle)) {
			return due
		}
	}
	return now.Add(idle)
}

// tick reports if it is time to, and shows how far it is.
func (r *replica) tick(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rules == nil || r.isOver {
		return
	}
	r.ring.update(now)
	r.stay(now)
	r.report(now)
	if r.env.Progress != nil && now.Sub(r.shown) > idle {
		r.shown = now
		r.env.Progress(Progress{Landed: r.landing.Offset(), Length: r.heard.Length, Stats: r.shownStats(), Silent: r.silence(now)})
	}
}

// report tells the sender what there is to tell. The caller has the lock.
func (r *replica) report(now time.Time) {
	if report, ok := r.rules.Report(now); ok {
		r.stats.Reports++
		report.Frontier = min(report.Frontier, r.blocks.next) // what waits to land may be lost yet
		_ = r.mouth.Send(r.up.Seal(nil, wire.Head{Kind: wire.Report, Block: uint32(r.id), Number: r.number}, report.Append(nil)), r.heard.Sender)
		r.number++
	}
}

// finish ends the replica for a reason, or because all is done.
func (r *replica) finish(reason error) {
	r.mu.Lock()
	if r.ended == nil {
		r.ended = reason
	}
	r.isOver = true
	r.mu.Unlock()
	r.stop()
}

func (r *replica) receipt() Receipt {
	return Receipt{Info: r.heard.info(), Root: r.root, Resumed: r.resumed, Took: time.Since(r.began), Done: r.done, Stats: r.shownStats()}
}

// shownStats is what came, and how. The caller has the lock, or is alone.
func (r *replica) shownStats() Stats {
	stats := r.stats
	stats.Offload = r.ear.Offload()
	return stats
}
