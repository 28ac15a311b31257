package liveness

import "time"

const (
	// fewestMissed is the least number of peers that do not fall silent at once by accident.
	fewestMissed = 3
	// fewestAll is the same of all peers there are, whatever says that they may be gone.
	fewestAll = 5
	// mostDeaf is how long somebody can take itself for cut off: as switches take to look for loops, or to start anew.
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

// Step reports whether the owner counts as cut off now, where of all peers so many are missed, or doubted and silent, too, and not yet
// taken for gone. Peers that let go of the owner one after the other may do so since they do not hear it: where nobody is left, they do.
func (i *Isolation) Step(missed, doubted, all int, now time.Time) bool {
	isMost := missed >= fewestMissed && 2*missed > all
	isAll := missed+doubted == all && all >= fewestAll
	if !isMost && !isAll {
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
