package window

import (
	"math"
	"time"
)

// hidden finds newcomers that have no part in the queue that others see. A client that has not been seen without a queue may have
// learnt its round trip with one, and then sees no queue where one stands: so it has no say while there are clients that have been seen
// without one. But the queue that is hidden in its round trip is no longer than the shortest that those clients have seen since it came.
// If their queue becomes much longer than that, and the newcomer waits no longer than before, the queue stands on their own paths, and
// it is they who can say nothing of the access link.
type hidden struct {
	last time.Duration // the queue in the last step, as seen by clients that have been seen without one
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
			h.hidden = min(h.hidden, max(queue, d.last)) // round trips are means over the last step, too
		}
		h.aside = !h.drained && h.hidden < queue/2-h.delay()
	}
	d.last = queue
}
