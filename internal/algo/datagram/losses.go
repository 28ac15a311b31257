package datagram

import (
	"slices"
	"time"
)

// reorderDegree is how many later datagrams have to come before one counts as lost
// (RFC 5348, section 5.1: NDUPACK).
const reorderDegree = 3

// intervalWeights are those of RFC 5348, section 5.4, the latest interval first.
var intervalWeights = [8]float64{1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2}

// Losses is what a child finds out about its link: RFC 5348, section 5. Datagrams that
// are lost within a round trip are one loss event.
type Losses struct {
	seen     Seen
	highest  [reorderDegree]uint64 // the highest numbers that came, ascending, each plus one
	judged   uint64                // every number before it has come, or is lost
	received uint64
	lost     uint64

	begun     bool
	event     time.Time // when the last loss event began
	eventAt   uint64    // and with which number
	events    int
	intervals []float64 // that are closed, the latest first

	bytes     uint64 // since the rate was last asked for
	since     time.Time
	rate      float64
	roundTrip time.Duration
	size      float64 // of datagrams, in the mean
}

// Arrived notes a datagram, and reports whether it is the first with its number.
func (l *Losses) Arrived(number uint64, size int, roundTrip time.Duration, now time.Time) (first bool) {
	if !l.begun {
		// What came before the child listened was not for it.
		l.begun, l.judged, l.eventAt, l.since = true, number, number, now
	}
	if !l.seen.Note(number) {
		return false
	}
	l.received++
	l.bytes += uint64(size)
	l.size += (float64(size) - l.size) / min(float64(l.received), 16)
	l.roundTrip = roundTrip
	l.judge(number, now)
	return true
}

// judge finds out what is lost, now that a number came.
func (l *Losses) judge(number uint64, now time.Time) {
	if number+1 > l.highest[0] {
		l.highest[0] = number + 1
		slices.Sort(l.highest[:])
	}
	upTo := l.highest[0]
	if upTo == 0 {
		return // too few came
	}
	if oldest := l.seen.Next() - min(l.seen.Next(), SeenSpan); l.judged < oldest { // too long ago to tell apart: one long loss
		l.lose(l.judged, oldest-l.judged, now)
		l.judged = oldest
	}
	for ; l.judged < upTo; l.judged++ {
		if !l.seen.Has(l.judged) {
			l.lose(l.judged, 1, now)
		}
	}
}

// lose notes that datagrams are lost, and whether they are a loss event of their own.
func (l *Losses) lose(number, count uint64, now time.Time) {
	l.lost += count
	if l.events > 0 && now.Sub(l.event) < l.roundTrip {
		return
	}
	interval := float64(number - l.eventAt)
	if l.events == 0 {
		interval = max(interval, l.firstInterval(now))
	}
	l.intervals = append([]float64{interval}, l.intervals[:min(len(l.intervals), len(intervalWeights)-1)]...)
	l.events++
	l.event, l.eventAt = now, number
}

// firstInterval is what stands for the time before the first loss: the interval at which
// TCP would have had the rate that came through (RFC 5348, section 6.3.1). A stream that
// sends less than it might has that interval at least for which nothing was lost.
func (l *Losses) firstInterval(now time.Time) float64 {
	rate := l.rate
	if elapsed := now.Sub(l.since).Seconds(); elapsed > 0 {
		rate = max(rate, float64(l.bytes)/elapsed)
	}
	return 1 / lossOf(rate, l.size, l.roundTrip)
}

// EventRate returns the loss event rate p: section 5.4. The open interval counts when it
// makes the mean longer.
func (l *Losses) EventRate() float64 {
	if l.events == 0 {
		return 0
	}
	open := float64(l.seen.Next() - l.eventAt)
	withOpen := weighted(append([]float64{open}, l.intervals...))
	return min(1, 1/max(withOpen, weighted(l.intervals), 1))
}

func weighted(intervals []float64) float64 {
	var sum, weights float64
	for i, interval := range intervals[:min(len(intervals), len(intervalWeights))] {
		sum += interval * intervalWeights[i]
		weights += intervalWeights[i]
	}
	return sum / weights
}

// Received and Lost return how many datagrams of the link came and did not.
func (l *Losses) Received() uint64 { return l.received }
func (l *Losses) Lost() uint64     { return l.lost }

// Rate returns how many bytes per second came since it was last asked for.
func (l *Losses) Rate(now time.Time) float64 {
	if elapsed := now.Sub(l.since).Seconds(); elapsed > 0 {
		l.rate = float64(l.bytes) / elapsed
	}
	l.bytes, l.since = 0, now
	return l.rate
}
