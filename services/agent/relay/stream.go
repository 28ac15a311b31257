package relay

import (
	"errors"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/link"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// The sender of a stream keeps what the members that it began with lack, as long as they are heard of. A member that is new, or
// begins anew, cannot have what was before that: it is told so, and holds up nobody. For a member that is moved here from another
// agent the sender has everything that it lacks, and the delivery begins again for it.

// streamWindow is the most that is cached of a stream, whatever room there is: a child that is further behind
// is slow, not late.
const streamWindow = 256 << 20

// isBehind reports whether a link that begins at an offset brings nothing new.
func (d *delivery) isBehind(from uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return from < d.account.Offset()
}

// errAnswered ends a link that asked whether there is anything, when there is.
var errAnswered = errors.New("there is what children lack of the stream")

// beginAnswered has the delivery begin again from where the parent has something, if some child still needs that.
func (d *delivery) beginAnswered(from uint64) {
	d.update(func() {
		if asked, asks := d.asks(); asks && asked == from {
			d.begin = &from
		}
	})
}

// forgo reports whether a link to the parent, which had begun at an offset, ended with an answer. If it asked whether there is anything
// from there, for children that need what the cache no longer has, these get no more if there is not. If it was to bring what comes next,
// the delivery begins again from where the parent has something. The answer to what nobody asks any more changes nothing.
func (d *delivery) forgo(err error, begun uint64, question bool) (forgone bool) {
	if errors.Is(err, errAnswered) {
		return true
	}
	kept, is := link.NotKept(err)
	var ended *link.Ended
	isFormer := errors.As(err, &ended) && ended.Reason == wire.Protocol // senders of earlier versions do not say from where on they have something
	if !is && !isFormer {
		return false
	}
	d.update(func() {
		kept = min(kept, d.length())
		asked, asks := d.asks()
		switch isAsked := asks && asked == begun; {
		case question && !isAsked:
			forgone = true
		case question && (isFormer || kept > asked):
			if isFormer {
				kept = d.account.Discarded()
			}
			d.kept = max(d.kept, kept)
			d.account.Exclude(d.kept)
			forgone = true
		case !question && is && d.isStream() && kept > d.account.Offset():
			d.kept = max(d.kept, kept)
			from := d.account.Forgo(d.kept)
			d.begin, forgone = &from, true
		}
	})
	return forgone
}

// All functions below are called with d.mu held.

func (d *delivery) isStream() bool {
	return d.assignment.GetSpec().GetKind() == groupv1.DeliveryKind_DELIVERY_KIND_STREAM
}

func (d *delivery) isEndToEnd() bool {
	return d.assignment.GetSpec().GetControlMode() == groupv1.ControlMode_CONTROL_MODE_END_TO_END
}

// resume has children that wait go on, if the others have what there is of a stream.
func (d *delivery) resume() {
	if from, needed := d.account.Resume(time.Now()); needed && d.begin == nil {
		d.begin = &from
	}
}

// notKept returns what a child is told that needs what can be had nowhere any more.
func (d *delivery) notKept() *link.Bye {
	return &link.Bye{Reason: wire.NotKept, Text: "its sender does not keep any more what it lacks of the stream", Offset: d.kept}
}

// isGone reports whether what follows an offset can be had nowhere any more: neither from the sender nor from the cache.
func (d *delivery) isGone(offset uint64) bool { return offset < min(d.kept, d.account.Discarded()) }

// beginFrom has the delivery begin again from an offset. For a stream, the parent is asked first whether it has anything from there:
// what the cache holds for other children may be had nowhere else, and they would wait while it comes again.
func (d *delivery) beginFrom(from uint64) {
	if !d.isStream() {
		d.begin = &from
		return
	}
	d.inlet.end() // the next link asks
}

// asks reports whether the next link to the parent is only to ask if there is anything of a stream from an offset on, for children
// that need what the cache no longer has; and returns that offset.
func (d *delivery) asks() (from uint64, some bool) {
	if !d.isStream() || d.begin != nil {
		return 0, false
	}
	return d.account.Lacks()
}

// part lets children go, and ends the link to the parent if it asks for nobody any more then.
func (d *delivery) part(leave func()) {
	_, asked := d.asks()
	leave()
	if _, asks := d.asks(); asked && !asks {
		d.inlet.end()
	}
}

// from returns where the next link to the parent begins.
func (d *delivery) from() uint64 {
	if from, asks := d.asks(); asks {
		return from
	}
	return d.account.Offset()
}

// question returns what the parent is told over a link that asks whether there is anything from an offset on: it may send one byte.
func (d *delivery) question(from uint64) link.Answer {
	answer := d.answer()
	answer.Ack, answer.Credit, answer.Done = from, from+1, false
	return answer
}
