package receive

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/printable"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// take takes a datagram that was sent to the group.
func (r *replica) take(datagram []byte, _ netip.AddrPort) {
	head, err := wire.ParseHead(datagram)
	switch {
	case err != nil:
		return
	case head.Session != r.heard.Secret.Session():
		r.another(head, datagram)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isOver || r.rules == nil && head.Kind != wire.Announce {
		return
	}
	r.stats.Datagrams++
	switch head.Kind {
	case wire.Data, wire.Parity:
		err = r.packet(head, datagram)
	case wire.Zero, wire.Poll:
		err = r.control(head, datagram)
	case wire.Announce:
		err = r.announced(head, datagram)
	}
	if err != nil {
		r.stats.Forged++
	}
}

// another hears a sender that begins while this replica's own is silent: if it has the same object, the sender was started again, and is
// followed.
func (r *replica) another(head wire.Head, datagram []byte) {
	r.mu.Lock()
	isSilent := r.welcomed && !r.isSettled && !r.isOver && time.Since(r.pollHeard) > goneAfter
	r.mu.Unlock()
	if !isSilent || head.Kind != wire.Announce {
		return
	}
	other, ok := announcement(r.heard.keys, datagram)
	if ok && other.Name == r.heard.Name && other.Kind == r.heard.Kind && other.Length == r.heard.Length {
		r.finish(errAgain)
	}
}

// announced notes that the sender is still there: a replica that came early may have to wait for others.
func (r *replica) announced(head wire.Head, datagram []byte) error {
	payload, err := r.ring.open(nil, head, wire.SaltSize+wire.PublicSize, datagram)
	switch {
	case err != nil:
		return err
	case r.rules != nil:
		r.rules.Came(head.Number)
		return nil
	case head.Number <= r.lastAnnounced: // it was recorded
		return nil
	}
	r.lastAnnounced, r.pollHeard = head.Number, time.Now()
	a, err := wire.ParseAnnouncement(payload)
	if err == nil && r.heard.Datagram == 0 && a.Datagram > 0 { // by now it should have answered
		r.heard.Datagram, r.asking = a.Datagram, time.Now()
	}
	return err
}

// packet opens a packet or shard where it belongs. Of a block of which nothing came yet it is opened
// elsewhere: what is forged takes no memory.
func (r *replica) packet(head wire.Head, datagram []byte) error {
	index := int(head.Index)
	if (head.Kind == wire.Parity) != (index >= wire.PacketsPerBlock) || len(datagram) > r.shape.Packet+wire.Overhead {
		return wire.ErrProtocol
	}
	isWanted := r.rules.Wants(head.Block, index)
	to := r.blocks.scratch
	isPlaced := isWanted && r.blocks.isOpen(head.Block, index)
	if isPlaced {
		to = r.blocks.place(head.Block, index)
	}
	payload, err := r.ring.open(to[:0], head, 0, datagram)
	if err != nil {
		return err
	}
	r.rules.Came(head.Number)
	if !isWanted {
		r.rules.Refused(head.Block)
		return nil
	}
	if len(payload) != r.blocks.length(head.Block, index) {
		return wire.ErrProtocol
	}
	if !isPlaced {
		to = r.blocks.place(head.Block, index)
		copy(to, payload)
	}
	r.blocks.keep(head.Block, index, to)
	r.stats.Came += uint64(len(payload))
	if !r.rules.Took(head.Block, index) {
		return nil
	}
	if missing := r.rules.Missing(head.Block); missing != 0 {
		r.stats.Rebuilt++
		if err := r.blocks.rebuild(head.Block, missing); err != nil {
			return err
		}
	}
	r.whole(head.Block)
	return nil
}

// whole has a block land, and ends the landing if that fails. The caller has the lock, which is free meanwhile.
func (r *replica) whole(block uint32) {
	taken, err := r.blocks.land(block)
	if err != nil {
		r.fail(err)
		return
	}
	if !taken {
		r.rules.Drop(block)
		return
	}
	r.rules.Whole(block)
	r.landed()
}

// zeros takes blocks of zeros that are in a row. Those that are not there yet land by and by. The caller has the lock.
func (r *replica) zeros(first, end uint32) {
	for r.rules.State() == wire.Receiving {
		from, to := r.rules.Gap(first, end)
		if from == to {
			return
		}
		r.blocks.zeros(from, to)
		r.rules.Fill(from, to)
		first = to
	}
}

const (
	// landFor is for how long what is there already lands before what came meanwhile is looked at: polls have to be
	// answered, and what comes has room for so long.
	landFor = 5 * time.Millisecond
	// landLeast is how many bytes of it land then however slow the disk is: twice as many as are taken at once. So less
	// and less is there that has to be read again.
	landLeast = 1 << 20
)

// catchUp lands, for a while, what is next and came before: a run of zeros, of which one datagram tells and which may be as
// long as the object, or what came while something before it was missing. The lock is free after each block.
func (r *replica) catchUp() {
	began := time.Now()
	for landed := 0; landed < landLeast || time.Since(began) < landFor; {
		bytes := r.landNext()
		if bytes == 0 {
			return
		}
		landed += bytes
	}
}

// landNext lands the block that is next, and returns how many bytes it has; none if it is not there.
func (r *replica) landNext() (bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isOver || !r.isBehind() {
		return 0
	}
	bytes, err := r.blocks.landNext()
	if err != nil {
		r.fail(err)
		return 0
	}
	r.landed()
	return bytes
}

// isBehind reports whether something is there that can land. The caller has the lock.
func (r *replica) isBehind() bool {
	return r.rules != nil && r.rules.State() == wire.Receiving && r.blocks.isBehind()
}

// landed says so when all blocks have landed. The caller has the lock.
func (r *replica) landed() {
	if r.blocks.next == r.shape.Blocks() && r.rules.State() == wire.Receiving {
		r.rules.Enter(wire.Landed, wire.NoReason, [wire.RootSize]byte{}, time.Now())
	}
}

func (r *replica) control(head wire.Head, datagram []byte) error {
	payload, err := r.ring.open(r.blocks.scratch[:0], head, 0, datagram)
	if err != nil {
		return err
	}
	if !r.rules.Came(head.Number) {
		return nil
	}
	if head.Kind == wire.Poll {
		poll, err := wire.ParsePoll(payload)
		if err != nil {
			return err
		}
		r.pollHeard = time.Now()
		r.rules.Polled(poll, head.Number, r.ear.Arrived())
		return nil
	}
	count, err := wire.ParseZero(payload)
	if err != nil || uint64(head.Block)+uint64(count) > uint64(r.shape.Blocks()) {
		return wire.ErrProtocol
	}
	r.zeros(head.Block, head.Block+count)
	return nil
}

// letter takes a datagram that was sent to this replica alone.
func (r *replica) letter(datagram []byte, _ netip.AddrPort) {
	head, err := wire.ParseHead(datagram)
	if err != nil || !isLetter(head.Kind) {
		return
	}
	r.mu.Lock()
	payload, err := r.down.Open(nil, head, datagram)
	switch {
	case err != nil:
		r.stats.Forged++
	case head.Number < r.nextLetter: // it came before, or another overtook it
	default:
		r.nextLetter = head.Number + 1
		err = r.opened(head, payload)
	}
	r.mu.Unlock()
	switch {
	case err != nil:
	case head.Kind == wire.Bye:
		if why, err := wire.ParseBye(payload); err == nil {
			r.bye(why)
		}
	case head.Kind == wire.Yield:
		r.yielded()
	}
}

// isLetter reports whether a sender says something of a kind to single members.
func isLetter(kind wire.Kind) bool {
	return kind == wire.Welcome || kind == wire.Seal || kind == wire.Bye || kind == wire.Yield
}

func (r *replica) opened(head wire.Head, payload []byte) error {
	switch head.Kind {
	case wire.Welcome:
		return r.welcome(algo.ID(head.Block), payload)
	case wire.Seal:
		length, root, err := wire.ParseSeal(payload)
		if err == nil && r.rules != nil && r.rules.State() == wire.Landed {
			r.complete(length, root)
		}
		return err
	}
	return nil
}

// welcome begins: it is known now how the object is cut.
func (r *replica) welcome(id algo.ID, payload []byte) error {
	size, err := wire.ParseWelcome(payload)
	if err != nil || r.welcomed {
		return err
	}
	if int(size) > r.heard.Size {
		r.ended = errTooLarge(int(size), r.heard.Size)
		r.stop()
		return nil
	}
	if r.shape, err = algo.ShapeOf(r.heard.Length, int(size)); err != nil {
		return err
	}
	r.blocks = newBlocks(r.shape, unlocked{r.landing, &r.mu}, &r.stats)
	r.rules = algo.NewReceiver(r.shape, r.blocks.have(), blocksIn(mostOpen, r.shape))
	r.rules.Welcome(id)
	r.welcomed, r.id, r.began, r.pollHeard = true, id, time.Now(), time.Now()
	r.landed()
	return nil
}

// complete compares the root and has the object appear, beside what goes on.
func (r *replica) complete(length uint64, root [wire.RootSize]byte) {
	r.rules.Enter(wire.Settling, wire.NoReason, [wire.RootSize]byte{}, time.Now())
	r.completing.Go(func() {
		err := r.landing.Complete(length, object.Root(root), r.config.Durable)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.isSettled = err == nil
		switch {
		case r.isInterrupted(err): // nothing is wrong with what is there
			return
		case errors.Is(err, object.ErrDamaged) && r.resumed > 0 && !r.isLast && r.ended == nil:
			r.ended, r.isOver = errOther, true
			r.stop()
			return
		case err != nil:
			r.fail(err)
			return
		}
		r.root, r.done = object.Root(root), time.Now()
		r.rules.Enter(wire.Complete, wire.NoReason, root, time.Now())
		_ = r.ear.SetReadDeadline(time.Now()) // to report it now
	})
}

// isInterrupted reports whether an error says no more than that nobody wants the replica any more, on this ground or at all.
func (r *replica) isInterrupted(err error) bool {
	why := context.Cause(r.life)
	return why != nil && errors.Is(err, why)
}

// bye ends the replica: the sender knows how it went, or goes, and says why if something is wrong.
func (r *replica) bye(why string) {
	r.mu.Lock()
	reason := error(nil)
	switch {
	case r.isSettled || r.ended != nil:
	case why == "":
		reason = fmt.Errorf("%w: it was ended; what is there is kept, receive again to go on", ErrSenderGone)
	default:
		reason = fmt.Errorf("%w: %s; %s", ErrSenderFailed, printable.Text(why), r.afterFailure(why))
	}
	r.mu.Unlock()
	r.finish(reason)
}

// afterFailure says what to do when the sender has failed. A source that has changed comes from the beginning, unless its content is as it
// was: that what came fits it no more is known only then.
func (r *replica) afterFailure(why string) string {
	if !strings.Contains(why, object.ErrChanged.Error()) {
		return "what is there is kept, receive again to go on"
	}
	const next = "receive again: if its content has changed, that begins anew"
	if at, is := r.landing.(*watched); is {
		if _, is := at.Landing.(*object.Landing); is { // what came to a device takes no room beside that
			return fmt.Sprintf("%s, and what came, in %s, can be removed", next, filepath.Join(r.config.Path, ".groupcast-partial"))
		}
	}
	return next
}

// yielded ends the replica for another that is made of what another sender has, unless it is there already.
func (r *replica) yielded() {
	r.mu.Lock()
	reason := errYielded
	if r.isSettled || r.ended != nil {
		reason = nil
	}
	r.mu.Unlock()
	r.finish(reason)
}

// fail tells the sender why this replica will not be. The caller has the lock.
func (r *replica) fail(err error) {
	if r.ended == nil {
		r.env.Log.Warn("nothing more can land here, which the sender is told", "object", r.heard.Name, "error", err)
		r.ended, r.failedAt = reasoned(err), time.Now()
		r.explain(err)
		r.rules.Enter(wire.Failed, reasonOf(err), [wire.RootSize]byte{}, time.Now())
	}
}

// explain tells the sender in words what a report has one letter for, as a receiver that cannot take part does. It is lost if the
// network loses it. The caller has the lock.
func (r *replica) explain(err error) {
	r.joinAs(wire.Joining{Refused: reasonOf(err), Detail: err.Error()})
}
