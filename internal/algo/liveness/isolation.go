package liveness

import "time"

const (
	// fewestMissed is of how many at least it takes no accident to fall silent at once.
	fewestMissed = 3
	// fewestAll is the same of all peers there are, whatever says that they may be gone.
	fewestAll = 5
	// mostDeaf is how long somebody can take itself for cut off: as switches take to look for loops, or to start anew.
	mostDeaf = 2 * time.Minute
	// comeBack is how long it takes all to be heard again after most of them are: they try again one after the other.
	comeBack = 10 * time.Second
)

// Isolation finds whether somebody has lost so many of its peers at once that rather it is cut off than they are gone.
type Isolation struct {
	since time.Time // since when most are missed; zero if they are not
	until time.Time // for how long the others are waited for when most are back
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
	if now.Sub(i.since) >= mostDeaf { // they are gone after all
		i.until = time.Time{}
		return false
	}
	i.until = now.Add(comeBack)
	return true
}
