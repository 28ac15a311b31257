package liveness

import "time"

const (
	// fewestMissed is the least number of peers that do not fall silent at once by accident.
	fewestMissed = 3
	// mostDeaf is the longest time for which an owner can take itself to be cut off: that is how long switches take to
	// look for loops, or to restart.
	mostDeaf = 2 * time.Minute
	// comeBack is how long it takes until all peers are heard again after most of them are: they try again one after the other.
	comeBack = 10 * time.Second
)

// Isolation finds whether somebody has lost so many of its peers at once that it is more likely to be cut off than they
// are to be gone.
type Isolation struct {
	since time.Time // since when most peers are missed; zero if they are not
	until time.Time // once most peers are back, how long to wait for the others
}

// Step reports whether the owner counts as cut off now, if of all its peers so many are missed, and not yet taken to be silent.
func (i *Isolation) Step(missed, all int, now time.Time) bool {
	if missed < fewestMissed || 2*missed <= all {
		i.since = time.Time{}
		return now.Before(i.until)
	}
	if i.since.IsZero() {
		i.since = now
	}
	if now.Sub(i.since) >= mostDeaf { // the peers are gone after all
		i.until = time.Time{}
		return false
	}
	i.until = now.Add(comeBack)
	return true
}
