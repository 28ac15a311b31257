package window

import "time"

// drain has the queue run empty for a moment, now and then: a round trip that was learnt while a
// queue stood is too long, and whoever believes it keeps the queue for ever. What is learnt
// says when to do it next.
type drain struct {
	next    time.Time
	pause   time.Duration
	running bool
	shorter bool // a round trip was learnt that is shorter than was known
}

const (
	// drainShare is what of the windows is left for the length of a step.
	drainShare = .75
	// firstDrain is how long after the first queue it is done first, and again where something
	// was learnt. Where nothing was, it takes twice as long, up to lastDrain.
	firstDrain, lastDrain = 4 * time.Second, 2 * time.Minute
)

// step returns what of their windows all are to have until the next.
func (d *drain) step(now time.Time, possible bool, all []*history) float64 {
	for _, h := range all {
		d.shorter = d.shorter || h.shorter
	}
	switch {
	case d.running:
		d.pause = min(2*d.pause, lastDrain)
		if d.shorter {
			d.pause = firstDrain
		}
		d.running, d.next = false, now.Add(d.pause)
	case !possible:
	case d.next.IsZero():
		d.pause, d.next = firstDrain, now.Add(firstDrain)
	case !now.Before(d.next):
		d.running, d.shorter = true, false
		return drainShare
	}
	return 1
}
