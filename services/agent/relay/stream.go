package relay

import (
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

// forgo takes it from who feeds this agent that what was asked for is not kept any more, if the link ended for that: it
// begins again from where there is something.
func (d *delivery) forgo(err error) (forgone bool) {
	kept, is := link.NotKept(err)
	if !is {
		return false
	}
	d.update(func() {
		if forgone = d.isStream() && kept > d.account.Offset(); forgone {
			d.kept = max(d.kept, kept)
			from := d.account.Forgo(d.kept)
			d.begin = &from
		}
	})
	return forgone
}
