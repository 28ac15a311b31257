package window

import (
	"math"
	"time"
)

// hidden finds those who have come beside a queue that is not before them. Who has not been seen without a queue may have learnt its
// round trip with one, and then sees nothing where one stands: it has no say while others have. But no longer a queue is hidden in its
// round trip than the shortest that those others have seen since it is there; and where theirs becomes much longer, and it
// waits no longer than before, theirs stands on their own ways, and it is they who can say nothing of the access link.
type hidden struct {
	last time.Duration // the queue in the last step, as those see it who have been seen without one
}

// unknown is how much of a queue may be hidden in a round trip as long as nobody can tell.
const unknown = time.Duration(math.MaxInt64)

func (d *hidden) step(all []*history) {
	var queues []time.Duration
	if enoughDrained(all) {
		for _, h := range all {
			if h.drained && h.flows() {
				queues = append(queues, h.delay())
			}
		}
	}
	if len(queues) == 0 {
		d.last = unknown
		for _, h := range all {
			h.aside = false
		}
		return
	}
	queue := quartile(1, queues)
	for _, h := range all {
		if h.flows() {
			h.hidden = min(h.hidden, max(queue, d.last)) // round trips are means: of the last step, too
		}
		h.aside = !h.drained && h.hidden < queue/2-h.delay()
	}
	d.last = queue
}
