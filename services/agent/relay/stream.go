package relay

import (
	"errors"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/link"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// The sender of a stream keeps what those lack that it was begun with and that are heard of. What was before that nobody can have
// who is new, or comes anew: he is told so, and it holds up nobody. Who is moved here from another agent lacks nothing
// that the sender has not, and it begins again for him.

// streamWindow is how much of a stream is cached at most, whatever room there is:
// who is further behind is slow, not late.
const streamWindow = 256 << 20

// isBehind reports whether a link that begins at an offset brings nothing new.
func (d *delivery) isBehind(from uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return from < d.account.Offset()
}

// errAnswered ends a link that asked whether there is anything, when there is.
var errAnswered = errors.New("there is what children lack of the stream")

// beginAnswered has all begin again from where there is something, if that is asked for still.
func (d *delivery) beginAnswered(from uint64) {
	d.update(func() {
		if asked, asks := d.asks(); asks && asked == from {
			d.begin = &from
		}
	})
}

// forgo takes it from who feeds this agent that what was asked for is not kept any more, if the link ended for that. Where it was asked
// for those alone that the cache has nothing for, they get no more; otherwise it begins again from where there is something. A link
// that began before what is here asked: if nobody does any more, its answer changes nothing.
func (d *delivery) forgo(err error, begun uint64) (forgone bool) {
	if errors.Is(err, errAnswered) {
		return true
	}
	kept, is := link.NotKept(err)
	var ended *link.Ended
	isFormer := errors.As(err, &ended) && ended.Reason == wire.Protocol // what earlier senders say, and not from where on they have something
	if !is && !isFormer {
		return false
	}
	d.update(func() {
		asked, asks := d.asks()
		switch {
		case asks && isFormer && asked == begun:
			kept = d.account.Discarded()
			fallthrough
		case asks && kept > asked:
			d.kept = max(d.kept, kept)
			d.account.Exclude(d.kept)
			forgone = true
		case d.isStream() && is && kept > d.account.Offset():
			d.kept = max(d.kept, kept)
			from := d.account.Forgo(d.kept)
			d.begin, forgone = &from, true
		case begun < d.account.Offset():
			forgone = !asks || asked != begun
		}
	})
	return forgone
}

// All functions below are called with d.mu held.

func (d *delivery) isStream() bool {
	return d.assignment.GetSpec().GetKind() == groupv1.DeliveryKind_DELIVERY_KIND_STREAM
}

// resume has those go on that wait, if the others have what there is of a stream.
func (d *delivery) resume() {
	if from, needed := d.account.Resume(time.Now()); needed && d.begin == nil {
		d.begin = &from
	}
}

// notKept is what those are told that need what can be had nowhere any more.
func (d *delivery) notKept() *link.Bye {
	return &link.Bye{Reason: wire.NotKept, Text: "its sender does not keep any more what it lacks of the stream", Offset: d.kept}
}

// isGone reports whether what follows an offset can be had nowhere any more: neither from the sender nor from the cache.
func (d *delivery) isGone(offset uint64) bool { return offset < min(d.kept, d.account.Discarded()) }

// beginFrom has the delivery begin again from an offset. Of a stream, who feeds this agent is asked first whether it has anything from there:
// what the cache has for others may be had nowhere else, and they would wait while it comes again.
func (d *delivery) beginFrom(from uint64) {
	if !d.isStream() {
		d.begin = &from
		return
	}
	d.inlet.end() // the next link asks
}

// asks returns from where the next link is to begin to find out whether there is anything of a stream, and whether it is to do that.
func (d *delivery) asks() (from uint64, some bool) {
	if !d.isStream() || d.begin != nil {
		return 0, false
	}
	return d.account.Lacks()
}

// part has children go, and ends the link to the parent if it asks for nobody any more then.
func (d *delivery) part(leave func()) {
	_, asked := d.asks()
	leave()
	if _, asks := d.asks(); asked && !asks {
		d.inlet.end()
	}
}

// from is where the next link to who feeds this agent begins.
func (d *delivery) from() uint64 {
	if from, asks := d.asks(); asks {
		return from
	}
	return d.account.Offset()
}

// question is what who feeds this agent is told over a link that asks whether there is anything from an offset: it is for one byte.
func (d *delivery) question(from uint64) link.Answer {
	answer := d.answer()
	answer.Ack, answer.Credit, answer.Done = from, from+1, false
	return answer
}
