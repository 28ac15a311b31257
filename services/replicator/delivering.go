package replicator

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/pulse"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/replicator/device"
	"github.com/groupcast/groupcast/services/replicator/receive"
)

// Replicas that multicast does not reach are members of a group in which the sender delivers what
// it replicates: session agents carry it to them. The replication's receipts are the same.

// joining is how long a sender waits until the members that it delivers to have joined the group.
const joining = 10 * time.Second

// delivery says to which members a sender delivers.
type delivery struct {
	to      []string      // of the task
	stream  bool          // of the task: somebody of these has a block device there
	changed chan struct{} // closed when any of these changes

	// Of the goroutine that delivers: who was waited for already, and how many deliveries each was in that has not all of it by them.
	awaited map[string]bool
	vain    map[string]int
}

// maxVain is how many deliveries a replica is in, and has not all of it by them, before nothing more is delivered to it. One that begins anew
// in the middle of a stream needs another, and one whose connection breaks again and again some more.
const maxVain = 10

// carry has a sender deliver to those that its task names. The caller has the lock.
func (w *worker) carry(j *job, task *replicav1.Task) {
	part := task.GetSend()
	if part.GetDeliveryGroup() == "" || j.delivery != nil && slices.Equal(j.delivery.to, part.GetDeliverTo()) && j.delivery.stream == part.GetDeliverStream() {
		return
	}
	if j.delivery == nil {
		j.delivery = &delivery{changed: make(chan struct{}), awaited: make(map[string]bool), vain: make(map[string]int)}
		w.working.Go(func() {
			if err := w.deliver(j, part); err != nil && j.ctx.Err() == nil {
				w.log.Warn("session agents cannot carry a replication", "replication", task.GetReplication(), "error", err)
				w.note(true, func() { j.sending.DeliveryProblem = err.Error() })
			}
		})
	}
	j.delivery.to, j.delivery.stream = part.GetDeliverTo(), part.GetDeliverStream()
	close(j.delivery.changed)
	j.delivery.changed = make(chan struct{})
}

// deliver delivers what is replicated to all that the task names, as they join the group, those that it names later by
// deliveries of their own, until the task is withdrawn. Where no manager answers, or the session has expired, it
// joins again: how long it is waited for, the managers decide, and how long for replicas that do not join. Receivers of earlier versions do not
// wait.
func (w *worker) deliver(j *job, task *replicav1.SendTask) error {
	path, err := w.places.sendable(j.ctx, task.GetPath())
	if err != nil {
		return err
	}
	for {
		err := w.deliverIn(j, path, task)
		if err == nil || !mayDeliverAgain(err) {
			return err
		}
		w.log.Warn("session agents do not carry a replication for now: joining again", "replication", j.sending.GetReplication(), "error", err)
		if !pause.For(j.ctx, joinPause) {
			return j.ctx.Err()
		}
	}
}

// deliverIn is deliver in one session.
func (w *worker) deliverIn(j *job, path string, task *replicav1.SendTask) error {
	session, err := w.join(j.ctx, task.GetDeliveryGroup(), sdk.Send)
	if err != nil {
		return err
	}
	defer leave(session)
	for j.ctx.Err() == nil {
		w.mu.Lock()
		to, stream, changed := j.delivery.to, j.delivery.stream, j.delivery.changed
		open := slices.DeleteFunc(slices.Clone(to), func(name string) bool { return slices.Contains(j.sending.GetDelivered(), name) })
		w.mu.Unlock()
		if len(open) == 0 {
			select {
			case <-changed:
			case <-session.Done():
				return fmt.Errorf("%w: %w", errNoSession, session.Err())
			case <-j.ctx.Done():
			}
			continue
		}
		there, err := awaitMembers(j.ctx, session, open, j.delivery.awaited)
		if err == nil && len(there) > 0 {
			err = w.deliverTo(j, session, there, path, task, stream)
		}
		if err != nil {
			return err
		}
		pause.For(j.ctx, joinPause)
	}
	return nil
}

// senderLost is why a delivery ends whose sender's session has expired.
const senderLost = "sender_lost"

// canceled is why a delivery ends for members that came late, if all that it began with have failed.
const canceled = "canceled"

// errSenderLost says that a delivery ended since the managers had not heard of this sender.
var errSenderLost = errors.New("the managers had not heard of this replicator, and ended the delivery")

// mayDeliverAgain reports whether an error is of the managers' absence, or of a session or a receiver that was away.
func mayDeliverAgain(err error) bool {
	var refused *sdk.Error
	return isLost(err) || errors.Is(err, errSenderLost) || errors.As(err, &refused) && slices.Contains([]string{"SESSION_ENDED", noReceivers}, refused.Reason)
}

// noReceivers is why nothing is delivered in a group that nobody else has joined.
const noReceivers = "NO_RECEIVERS"

// deliverTo makes one delivery, waits for its end, and notes who needs no other: who has all, and who was in so many in vain. A replica that
// gave up has said so itself, and the managers name it no more.
func (w *worker) deliverTo(j *job, session *sdk.Session, there []string, path string, task *replicav1.SendTask, stream bool) error {
	out, end, err := w.offer(j.ctx, session, path, task, stream)
	if err != nil {
		return err
	}
	defer end()
	last, err := w.follow(j, out)
	if err != nil {
		return err
	}
	done := j.delivery.done(there, last.Receipts)
	w.note(true, func() { j.sending.Delivered = append(j.sending.Delivered, done...) })
	return nil
}

// done returns those of whom were in a delivery to whom nothing more is delivered.
func (d *delivery) done(were []string, receipts []sdk.Receipt) (done []string) {
	complete := make(map[string]bool)
	for _, receipt := range receipts {
		complete[receipt.Member] = receipt.State == sdk.ReceiptComplete
	}
	for _, name := range were {
		if d.vain[name]++; complete[name] || d.vain[name] >= maxVain {
			done = append(done, name)
		}
	}
	return done
}

// follow notes how a delivery goes, until it has ended. It may go on without the session that it was begun in: agents that have
// all of it need none.
func (w *worker) follow(j *job, out *sdk.Outgoing) (last sdk.Delivery, err error) {
	last, err = w.noteAll(j, out.Progress(j.ctx))
	if err != nil && mayDeliverAgain(err) {
		last, err = w.noteAll(j, w.client.WatchDelivery(j.ctx, out.ID()))
	}
	switch {
	case err != nil:
		return last, fmt.Errorf("delivery %s: %w", out.ID(), err)
	case last.Reason == senderLost:
		return last, fmt.Errorf("delivery %s: %w", out.ID(), errSenderLost)
	}
	return last, nil
}

// noteAll notes how a delivery goes, and returns how it was last.
func (w *worker) noteAll(j *job, states iter.Seq2[sdk.Delivery, error]) (last sdk.Delivery, err error) {
	for state, err := range states {
		if err != nil {
			return last, err
		}
		last = state
		w.note(false, func() { w.delivered(j, state) })
	}
	return last, nil
}

// offer begins a delivery of what a task names. What it reads is closed by end.
func (w *worker) offer(ctx context.Context, session *sdk.Session, path string, task *replicav1.SendTask, stream bool) (out *sdk.Outgoing, end func(), err error) {
	options := sendOptions(task)
	if !stream && device.IsDevice(path) {
		return nil, nil, fmt.Errorf("%s is a block device, which they carry onto block devices alone: name one as the target, by the path that it has in devices there, or an image file as the source", path)
	}
	if !stream {
		out, err = session.Send(ctx, path, options)
		return out, func() {}, err
	}
	from, err := w.content(ctx, task)
	if err != nil {
		return nil, nil, err
	}
	end = func() { _ = from.Close() } // it was read
	if out, err = session.SendStream(ctx, from, options); err != nil {
		end()
	}
	return out, end, err
}

// sendOptions are a replication's, in the words of deliveries: what it is called is the same for both, and as its LANs do, session agents wait
// for a slow replica unless it is to be served last.
func sendOptions(task *replicav1.SendTask) sdk.SendOptions {
	slow := sdk.Pace
	if task.GetSlow() == replicav1.SlowReplica_SLOW_REPLICA_DETACH {
		slow = sdk.Detach
	}
	return sdk.SendOptions{Name: nameOf(task.GetPath()), AckLevel: sdk.Durable, MaxBytesPerSecond: task.GetMaxBytesPerSecond(), SlowMember: sdk.SlowMember{Action: slow}}
}

// delivered notes what a delivery tells of the source: where nobody heard the multicast, nothing else
// does. The caller has the lock.
func (w *worker) delivered(j *job, state sdk.Delivery) {
	said := j.sending
	if said.GetName() == "" {
		said.Name, said.Length = state.Name, state.Length
	}
	said.SentBytes = max(said.GetSentBytes(), state.SentBytes)
	if state.Sealed && len(said.GetRoot()) == 0 {
		said.Root = state.Root
		w.poke()
	}
}

// awaitMembers waits until somebody has joined, and everybody who was not awaited before, for a while, and returns who has.
func awaitMembers(ctx context.Context, session *sdk.Session, names []string, awaited map[string]bool) (there []string, err error) {
	waiting, cancel := context.WithTimeout(ctx, joining)
	defer cancel()
	in := make(map[string]bool)
	for event, err := range session.Events(waiting) {
		if err != nil {
			break
		}
		track(in, event)
		if there = those(names, in); len(there) > 0 && !slices.ContainsFunc(names, func(name string) bool { return !in[name] && !awaited[name] }) {
			break
		}
	}
	select {
	case <-session.Done():
		return nil, fmt.Errorf("%w: %w", errNoSession, session.Err())
	default:
	}
	for _, name := range names {
		awaited[name] = true
	}
	if len(there) > 0 {
		return there, nil
	}
	members, err := session.Members(ctx) // only a manager that answers knows that they are not there
	track(in, sdk.MemberEvent{Snapshot: members})
	return those(names, in), err
}

// track notes who is in a group.
func track(in map[string]bool, event sdk.MemberEvent) {
	if event.Change != "" {
		in[event.Member.Name] = event.Change != sdk.Removed
		return
	}
	clear(in)
	for _, member := range event.Snapshot {
		in[member.Name] = true
	}
}

// those returns which names are in a group.
func those(names []string, in map[string]bool) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !in[name] })
}

// receiveDelivery receives a replica from session agents.
func (w *worker) receiveDelivery(ctx context.Context, j *job, task *replicav1.ReceiveTask) {
	arrived, done, err := w.arrive(ctx, j, task)
	if err != nil {
		w.failed(ctx, j, reasonOfDelivery(err), err, j.counted)
		return
	}
	w.note(true, func() {
		w.complete(j, object.Info{Name: arrived.Name, Length: arrived.Bytes}, arrived.Root, done, j.counted)
	})
}

// arrive joins the group and returns what arrives there first, and when that was. Where its session has expired, as that of a machine does whose
// cable was pulled, it joins again, and goes on from what it has: how long it is waited for, the managers decide.
func (w *worker) arrive(ctx context.Context, j *job, task *replicav1.ReceiveTask) (arrived sdk.Arrived, done time.Time, err error) {
	if err := w.places.disks.check(pulse.DiskOf(task.GetPath())); err != nil {
		return arrived, done, err
	}
	w.log.Info("multicast does not reach this replica: session agents carry it", "replication", j.receiving.GetReplication())
	options := sdk.ReceiveOptions{
		Begun: func(sdk.Incoming) {
			w.note(true, func() { j.receiving.State = replicav1.ReplicaState_REPLICA_STATE_RECEIVING })
		},
		Progress: w.flow(j),
	}
	watch := w.watch(j.receiving.GetReplication(), task.GetPath())
	if err := watch.Await(ctx, "open it", func() error { return w.landAt(pulse.In(ctx, &watch.Pulse), j, task, &options) }, func() {}); err != nil {
		return arrived, done, err
	}
	for wasIn := false; ; {
		session, err := w.join(ctx, task.GetDeliveryGroup(), sdk.Receive)
		if err == nil {
			wasIn = true
			arrived, err = first(ctx, session, options)
			done = time.Now() // before it leaves, which takes longer where no manager answers
			leave(session)
		}
		switch {
		case err == nil:
			return arrived, done, arrived.Err
		case !wasIn || !isLost(err):
			return arrived, done, err
		}
		w.log.Warn("the session in which session agents carry it is lost: joining again", "replication", j.receiving.GetReplication(), "error", err)
		if !pause.For(ctx, joinPause) {
			return arrived, done, ctx.Err()
		}
	}
}

// landAt sets where it lands: on a block device or in a directory.
func (w *worker) landAt(ctx context.Context, j *job, task *replicav1.ReceiveTask, options *sdk.ReceiveOptions) (err error) {
	if err := w.places.enter(ctx, task.GetPath()); err != nil {
		return err
	}
	if device.IsDevice(task.GetPath()) {
		options.Stream = func(in sdk.Incoming) (sdk.StreamWriter, error) { return w.overwrite(ctx, j, task, in) }
		return nil
	}
	options.Stream = func(sdk.Incoming) (sdk.StreamWriter, error) { return nil, noStream(task) }
	options.Reserve = w.places.reserve
	options.Into, err = w.places.directory(ctx, task.GetPath())
	return err
}

// noStream says why a directory does not get what comes as onto a block device: it would land without its mode, its time and its
// holes, beside what has its name.
func noStream(task *replicav1.ReceiveTask) error {
	if serial := task.GetDeviceSerial(); serial != "" {
		return fmt.Errorf("%w: %s is no block device, so it has no serial number", errNotAllowed, task.GetPath())
	}
	return fmt.Errorf("%w: session agents carry this onto a block device, and %s is a directory here: replicate on its own to replicas that have one, and not to one in /dev", errNotAllowed, task.GetPath())
}

// first returns what arrives first in a session. What is not the last word is none.
func first(ctx context.Context, session *sdk.Session, options sdk.ReceiveOptions) (arrived sdk.Arrived, err error) {
	for arrived, err = range session.Receive(ctx, options) {
		if err != nil || isLastWord(arrived) {
			break
		}
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", errNoSession, err)
	}
	return arrived, err
}

// isLastWord reports whether nothing more is to be awaited after what has arrived. The sender delivers again where the managers had not heard of
// it, where a replica came too late to have all of a stream, and where a delivery to others ended because none of them had all. Where it
// does not, the managers say so.
func isLastWord(arrived sdk.Arrived) bool {
	failed := new(sdk.DeliveryError)
	if !errors.As(arrived.Err, &failed) {
		return true
	}
	isOfOthers := arrived.Late && failed.Reason == canceled
	return failed.Reason != senderLost && !failed.MayComeAgain && !isOfOthers
}

// joinPause is how often it is tried to join again.
const joinPause = 500 * time.Millisecond

// isLost reports whether a member may join again: its session has expired, or no manager answers.
func isLost(err error) bool {
	if ended := new(sdk.SessionEnded); errors.As(err, &ended) {
		return ended.State == "expired"
	}
	return slices.Contains([]sdk.Code{sdk.Unavailable, sdk.TimedOut}, sdk.CodeOf(err))
}

// flow returns what notes how much of a delivery has landed: first it is told how much was there
// already, and less than before where it begins anew.
func (w *worker) flow(j *job) func(sdk.Incoming, uint64) {
	var before, came uint64
	known := false
	return func(_ sdk.Incoming, bytes uint64) {
		switch {
		case !known:
			known = true
			w.note(false, func() { j.receiving.ResumedBytes = bytes })
		case bytes > before:
			came += bytes - before
		}
		before = bytes
		w.landed(j, bytes, receive.Stats{Came: came})
	}
}

// errNoSession says that a replica could not join the group in which session agents carry it, or was
// not in it until the end.
var errNoSession = errors.New("no session with the managers")

// join joins a delivery group.
func (w *worker) join(ctx context.Context, group string, role sdk.Role) (*sdk.Session, error) {
	session, err := w.client.Join(ctx, sdk.Join{Group: group, Name: w.name, Node: w.config.Node, Roles: []sdk.Role{role}})
	if err != nil {
		return nil, fmt.Errorf("%w: join group %s: %w", errNoSession, group, err)
	}
	return session, nil
}

// leave leaves a group, which may be gone.
func leave(session *sdk.Session) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = session.Leave(ctx)
}

// reasonOfDelivery is the word for why a replica did not come from session agents.
func reasonOfDelivery(err error) string {
	var failed *sdk.DeliveryError
	if !errors.As(err, &failed) {
		return reasonOf(err)
	}
	switch failed.Reason {
	case "no_room", "damaged", "refused", "slow":
		return failed.Reason
	case "failed": // at this machine: it could not be written
		return "disk"
	}
	return senderLost
}
