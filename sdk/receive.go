package sdk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"sync"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/pulse"
)

// ReceiveOptions say where a member puts what it receives.
type ReceiveOptions struct {
	// Into is the directory that objects appear in, each in one step and whole. It is made if it is missing. Without it, all is refused
	// that Stream does not take.
	Into string
	// Stream returns where a stream goes. Without it a stream goes into a file in Into, whose name ends with .incomplete until all has
	// come. The writer is closed at the end of the stream, whether all came or not: see StreamWriter. When receiving is broken off, a
	// Write that blocks is not waited for: closing the writer should end it. If a stream comes again, as when the member receives
	// anew, Stream is called again with the same ID, and the stream comes from its first byte; it fails if that is not kept any more.
	Stream func(Incoming) (StreamWriter, error)
	// Begun is called when a delivery to this member begins, and Progress as bytes of an object land, with how many there are: at first,
	// those that were there already. If these turn out to be of something else, there are none again. Both may be nil.
	Begun    func(Incoming)
	Progress func(in Incoming, bytes uint64)
	// Fresh is how old a datagram may be when it comes here; an older one counts as late. The sender's bound holds, too, if it is less.
	// 0 leaves it at the sender's.
	Fresh time.Duration
	// AtOnce is how many deliveries are received at once at most. The latest come first, and others as the caller takes one: until then, for
	// an hour at most, their senders wait. 0 is as many as this process may open files for.
	AtOnce int
	// Once is for a program that receives one delivery and leaves. Others that are sent to this member are refused at once, so that their
	// senders do not wait for it.
	Once bool
	// Reserve is how many bytes of its disk an object leaves to others: one that would leave less fails with no_room. Streams do not look at
	// it.
	Reserve uint64
}

// Incoming is a delivery to this member.
type Incoming struct {
	ID, Group, Sender, Name string
	Kind                    DeliveryKind
	// Length is known from the start, except for streams.
	Length uint64
	// Late says that it had begun before this member joined: its sender does not wait for this member.
	Late bool
}

// Arrived is a delivery that has ended at this member.
type Arrived struct {
	Incoming
	// Path is where the object is, or what came of a stream that failed; empty if an object failed, or if a stream went to a
	// writer of the program's.
	Path  string
	Bytes uint64
	// Root is the root of all bytes (BLAKE3), once they are there; datagrams have none.
	Root []byte
	// Err is a *DeliveryError if the delivery failed; nil if all is there and verified. If it is another error, the managers refused that, as from
	// a session that has ended: their receipt is missing, though all is at Path.
	Err error
	// Datagrams is the account of a stream in datagrams, which tells what is missing; nil for all else.
	Datagrams *DatagramCounts
}

// DeliveryError says why a delivery failed at a member.
type DeliveryError struct {
	// Reason is one of the words of Receipt.Reason.
	Reason string
	Detail string
	// MayComeAgain says that nothing is wrong at this member, and that another delivery may bring it: of a stream, what this member lacks is not
	// kept any more, or a later delivery has taken the place of this one.
	MayComeAgain bool
}

func (e *DeliveryError) Error() string {
	if e.Detail == "" {
		return e.Reason
	}
	return e.Reason + ": " + e.Detail
}

// Receive receives what others send to the session's group, several deliveries at once, and yields each when it has ended here. Others
// are received meanwhile, however long the caller takes for one. It goes on until ctx is done, the session has ended, or the iteration
// is broken off. Then unfinished objects are kept, and go on when the same comes again; deliveries that have ended and were not yielded
// are yielded first by the next Receive of the session. Only one goroutine may receive in a session at a time.
func (s *Session) Receive(ctx context.Context, options ReceiveOptions) iter.Seq2[Arrived, error] {
	return func(yield func(Arrived, error) bool) {
		if !slices.Contains(s.member.Roles, Receive) {
			yield(Arrived{}, &Error{Code: Conflict, Reason: "NO_RECEIVER", Message: fmt.Sprintf("receive as %q: the member joined without the role receive", s.member.Name)})
			return
		}
		if options.Into == "" && options.Stream == nil {
			yield(Arrived{}, &Error{Code: InvalidArgument, Message: "receive: the options say neither Into nor Stream: nothing could be received"})
			return
		}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(s.keeping, stop)()
		release := s.attendance.claim()
		if release == nil {
			yield(Arrived{}, &Error{Code: Conflict, Reason: "RECEIVING", Message: fmt.Sprintf("receive as %q: this session is received from already", s.member.Name)})
			return
		}
		defer release()
		for unseen := s.attendance.takeUnseen(); len(unseen) > 0; unseen = unseen[1:] {
			if !yield(unseen[0], nil) {
				s.attendance.leaveUnseen(unseen[1:]...)
				return
			}
		}
		if ctx.Err() != nil {
			yield(Arrived{}, s.whyDone(ctx))
			return
		}
		if options.AtOnce = max(options.AtOnce, 0); options.Once {
			options.AtOnce = 1
		}
		arrived, places := make(chan arrival), newPlaces(options.AtOnce)
		var workers sync.WaitGroup
		defer workers.Wait()
		defer stop()
		workers.Go(func() { s.receiveAll(ctx, options, places, arrived) })
		if options.Into != "" {
			workers.Go(func() { s.sweep(ctx, options.Into) })
		}
		for {
			select {
			case one := <-arrived:
				if !yield(one.Arrived, nil) {
					return
				}
				if one.placed {
					places.giveBack()
				}
			case <-ctx.Done():
				yield(Arrived{}, s.whyDone(ctx))
				return
			}
		}
	}
}

// sweepPause is how often to look for parts that nobody goes on with.
const sweepPause = time.Hour

// sweep removes from a directory the parts of objects that nobody has gone on with. It leaves what came of streams: only the user can
// say what that is good for.
func (s *Session) sweep(ctx context.Context, dir string) {
	for {
		removed, err := object.Sweep(dir, object.Abandoned)
		if removed > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.client.log.Info("looked for unfinished objects of long ago", "dir", dir, "removed", removed, "error", err)
		}
		if !pause.For(ctx, sweepPause) {
			return
		}
	}
}

// arrival is what has arrived; placed is whether it took a place.
type arrival struct {
	Arrived
	placed bool
}

// receiveAll receives each delivery to this member when it begins, or when there is a place for it. A delivery that is refused for what
// it is takes no place.
func (s *Session) receiveAll(ctx context.Context, options ReceiveOptions, places *places, arrived chan<- arrival) {
	var workers sync.WaitGroup
	defer workers.Wait()
	begun, waiting := make(map[string]bool), newQueue(s.attendance)
	defer waiting.leaveBut(nil)
	for ctx.Err() == nil {
		assigned, changed := s.attendance.toReceive()
		forgetGone(begun, assigned)
		waiting.leaveBut(assigned)
		var isQuiet <-chan time.Time
		unsettled := s.attendance.unsettled()
		for _, assignment := range assigned {
			id := assignment.GetDelivery()
			switch {
			case begun[id] || assignment.GetEnded():
			case options.AtOnce > 0 && assignment.GetLate() && unsettled > 0: // a later one may still be assigned
				isQuiet = time.After(unsettled)
			case !options.takes(incomingOf(assignment)):
				begun[id] = true
				workers.Go(func() { s.receiveOne(ctx, options, assignment, false, arrived) })
			case places.take():
				begun[id] = true
				waiting.leave(id)
				workers.Go(func() { s.receiveOne(ctx, options, assignment, true, arrived) })
			case assignment.GetLate(): // its sender does not wait
			case options.Once:
				begun[id] = true
				workers.Go(func() {
					s.refuse(ctx, id, "the member receives one delivery, and that is another", func() bool { return true })
				})
			default:
				waiting.join(id)
			}
		}
		select {
		case <-changed:
		case <-isQuiet:
		case <-places.free:
		case <-ctx.Done():
		}
	}
}

func incomingOf(assignment *groupv1.Assignment) Incoming {
	return Incoming{
		ID: assignment.GetDelivery(), Group: assignment.GetGroup(), Sender: assignment.GetSender(),
		Name: assignment.GetSpec().GetName(), Kind: name[DeliveryKind](assignment.GetSpec().GetKind()), Length: assignment.GetSpec().GetLength(),
		Late: assignment.GetLate(),
	}
}

// takes reports whether there is somewhere to put a delivery.
func (o ReceiveOptions) takes(in Incoming) bool {
	return o.Into != "" || in.Kind == Stream && o.Stream != nil
}

func (s *Session) receiveOne(ctx context.Context, options ReceiveOptions, assignment *groupv1.Assignment, placed bool, arrived chan<- arrival) {
	incoming := incomingOf(assignment)
	if options.Begun != nil {
		options.Begun(incoming)
	}
	r := &receiving{
		session: s, id: incoming.ID, incoming: incoming, spec: assignment.GetSpec(), options: options, changed: make(chan struct{}),
		created: assignment.GetCreateTime().AsTime(),
		info: object.Info{
			Name: incoming.Name, Kind: object.File, Length: incoming.Length,
			Mode: fs.FileMode(assignment.GetSpec().GetMode()).Perm(), Time: assignment.GetSpec().GetSourceTime().AsTime(),
			Hashed: assignment.GetSpec().GetHashed(),
		},
	}
	if incoming.Kind == Directory {
		r.info.Kind = object.Directory
	}
	s.attendance.attend(r.id, r.standing)
	defer s.attendance.forget(r.id)
	one := r.receive(ctx)
	if ctx.Err() != nil && one.Err != nil {
		return // interrupted: it has not ended
	}
	end := outcome{bytes: one.Bytes, root: r.root, datagrams: one.Datagrams.message()}
	var failed *DeliveryError
	if errors.As(one.Err, &failed) {
		end.reason, end.detail = failed.Reason, failed.Detail
	}
	telling, told := outlasting(ctx, tellTime)
	defer told()
	err := s.record(telling, r.id, end)
	var refused *Error
	if errors.As(err, &refused) && refused.Reason == "SESSION_ENDED" {
		pause.For(ctx, endingTime)
	}
	if err != nil && ctx.Err() != nil {
		return // the next Receive finds it here, and records it
	}
	if refused != nil && (refused.Reason == "NO_PART" || refused.Code == NotFound) {
		s.client.log.Info("a delivery that has arrived is over: its sender does not learn of that", "delivery", r.id, "name", one.Name)
		err = nil
	}
	if err != nil && one.Err == nil {
		one.Err = fmt.Errorf("the managers did not take the receipt: %w", err)
	}
	select {
	case arrived <- arrival{one, placed}:
	case <-ctx.Done():
		s.attendance.leaveUnseen(one)
	}
}

// tellTime is how long the managers may take for the receipt of what has just arrived when receiving is broken off.
const tellTime = time.Second

// endingTime is how long a session that the managers say is over when they are told of a receipt may take to end here: its heartbeat
// comes to know it a little later.
const endingTime = 10 * time.Second

// outlasting returns a context that ends a while after another.
func outlasting(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if pause.For(longer, by) {
			cancel()
		}
	})
	return longer, func() {
		stop()
		cancel()
	}
}

// receiving is one delivery on its way here.
type receiving struct {
	session  *Session
	id       string
	incoming Incoming
	spec     *groupv1.DeliverySpec
	options  ReceiveOptions
	info     object.Info
	root     []byte
	counts   func() *DatagramCounts // of a stream in datagrams, once that runs
	pauses   func() bool            // whether the program takes no more of that for now

	created time.Time
	seen    *object.Seen // what was at the object's place when that was last compared
	reading pulse.Pulse  // of what is here already

	mu      sync.Mutex
	offset  uint64
	moved   time.Time // when that changed last
	end     *link.End
	lost    string
	damaged string // the agent that gave it damaged bytes, while it waits for another
	// comparing says that it takes nothing for now: it reads what is here already of what comes.
	comparing bool
	changed   chan struct{} // closed when any of these changes

	fedBy        string // the agent that fed it last
	triedAnother bool   // in place of one that gave it damaged bytes
}

func (r *receiving) standing() *groupv1.DeliveryReport {
	assignment, _ := r.session.attendance.assignment(r.id)
	r.mu.Lock()
	report := &groupv1.DeliveryReport{
		Delivery: r.id, TreeVersion: assignment.GetTreeVersion(), Bytes: r.offset, Lost: r.lost, Damaged: r.damaged, Ended: r.end != nil && r.offset == r.end.Length, Paused: r.comparing,
		Reads: r.reading.Beats(),
	}
	if r.counts != nil {
		report.Datagrams, report.Paused = r.counts().message(), r.pauses()
	}
	r.mu.Unlock()
	return report
}

// still returns for how long nothing has come.
func (r *receiving) still() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.comparing {
		return 0
	}
	return time.Since(r.moved)
}

// has returns how much has come. A Write that is not waited for any more may still add to it.
func (r *receiving) has() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.offset
}

func (r *receiving) update(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *receiving) failed(reason string, cause error) Arrived {
	again := errors.Is(cause, errNotKept) || errors.Is(cause, errYielded) || errors.Is(cause, errSuperseded)
	detail := cause.Error()
	var known *DeliveryError
	if errors.As(cause, &known) {
		detail = known.Detail
	}
	return Arrived{Incoming: r.incoming, Bytes: r.has(), Err: &DeliveryError{Reason: reason, Detail: detail, MayComeAgain: again}}
}

var errNoDirectory = errors.New("this member takes streams alone: it has no directory to put this into")

// receive receives the delivery to its end.
func (r *receiving) receive(ctx context.Context) Arrived {
	if !r.options.takes(r.incoming) {
		return r.failed("refused", errNoDirectory)
	}
	if r.options.Into != "" {
		if err := os.MkdirAll(r.options.Into, 0o755); err != nil {
			return r.failed(reasonOf(err), err)
		}
	}
	switch {
	case r.spec.GetDatagrams() != nil:
		return r.receiveDatagrams(ctx)
	case r.incoming.Kind == Stream:
		return r.receiveStream(ctx)
	}
	if err := object.CheckName(r.info.Name); err != nil {
		return r.failed("refused", err)
	}
	for {
		if one, is := r.alreadyHere(ctx); is {
			return one
		}
		landing, waited, err := r.beginInTurn(ctx)
		if waited && err == nil && landing.Offset() == 0 { // what it has waited for may have put the object here: others may look, too
			_ = landing.Keep() // there is nothing in it
			continue
		}
		if waited && err != nil {
			if one, is := r.alreadyHere(ctx); is {
				return one
			}
		}
		if err != nil {
			return r.failed(reasonOf(err), err)
		}
		if one, again := r.land(ctx, landing); !again {
			return one
		}
	}
}

// damagedPatience is how long a member waits to be fed by another agent after one gave it damaged bytes.
const damagedPatience = 15 * time.Second

// awaitsAnother tells the managers that an agent gave damaged bytes, waits to be fed by another, and reports whether it is. It does so
// only once: what two agents gave was damaged at its source.
func (r *receiving) awaitsAnother(ctx context.Context) bool {
	from := r.fedBy
	if from == "" || r.triedAnother {
		return false
	}
	r.triedAnother = true
	r.session.client.log.Warn("damaged bytes came: taking all again from another agent", "delivery", r.id, "agent", from)
	r.update(func() { r.damaged = from })
	defer r.update(func() { r.damaged = "" })
	r.session.attendance.reportNow()
	ctx, cancel := context.WithTimeout(ctx, damagedPatience)
	defer cancel()
	assignment, err := r.session.attendance.await(ctx, r.id, func(a *groupv1.Assignment) bool {
		return isOver(a) || len(a.GetParent().GetAddresses()) > 0 && a.GetParent().GetName() != from
	})
	return err == nil && !isOver(assignment)
}

func reasonOf(err error) string {
	var known *DeliveryError
	switch {
	case errors.As(err, &known):
		return known.Reason
	case errors.Is(err, errSuperseded):
		return "superseded"
	case noroom.Is(err):
		return "no_room"
	case errors.Is(err, object.ErrDamaged), errors.Is(err, object.ErrTable):
		return "damaged"
	case object.IsRefused(err):
		return "refused"
	}
	return "failed"
}

// endedEarly says why a delivery ended before it was done here.
func endedEarly(assignment *groupv1.Assignment) error {
	reason := assignment.GetReason()
	if reason == "" {
		reason = "canceled"
	}
	detail := "the delivery was ended"
	if reason == "sender_lost" {
		detail = "the sender was not heard of any more"
	}
	detail = cmp.Or(assignment.GetDetail(), detail) // earlier managers give none
	return &DeliveryError{Reason: reason, Detail: detail}
}
