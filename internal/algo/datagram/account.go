package datagram

import "time"

// Counts are what a member is told of a stream. Every datagram from the first that counts
// to the last that was sent is in one of Received, Late and Lost.
type Counts struct {
	// Received were handed on; Recovered of them were lost, and computed from parity.
	Received, Recovered uint64
	// Late came, or were recovered, when they were older than the freshness bound.
	Late uint64
	Lost uint64
	// Duplicated are further copies of datagrams that had come.
	Duplicated uint64
	// Reordered came after a datagram with a higher sequence.
	Reordered uint64
}

// Account is a member's account of a stream: loss and order are reported, never hidden.
type Account struct {
	fresh  time.Duration
	begun  bool
	first  uint64 // the lowest sequence that counts
	end    uint64 // after the highest that is known to have been sent
	seen   Seen
	counts Counts
}

// NewAccount returns the account of a stream with a freshness bound; zero is none. It
// begins with the stream, or with the first datagram that comes, for a member that joined
// in the middle.
func NewAccount(fresh time.Duration, inTheMiddle bool) *Account {
	return &Account{fresh: fresh, begun: !inTheMiddle}
}

// Arrived notes a datagram of some age, and reports whether it is to be handed on.
func (a *Account) Arrived(sequence uint64, age time.Duration, recovered bool) (handOn bool) {
	behind := sequence < a.seen.Next()
	if !a.seen.Note(sequence) {
		a.counts.Duplicated++
		return false
	}
	a.span(sequence)
	if behind && !recovered {
		a.counts.Reordered++
	}
	if a.fresh > 0 && age > a.fresh {
		a.counts.Late++
		return false
	}
	a.counts.Received++
	if recovered {
		a.counts.Recovered++
	}
	return true
}

// span has the account reach from the first that came to the highest.
func (a *Account) span(sequence uint64) {
	if !a.begun || sequence < a.first {
		a.first = sequence
	}
	a.begun, a.end = true, max(a.end, sequence+1)
}

// Ended notes how many datagrams were sent in all. A member that got none counts all of
// them as lost.
func (a *Account) Ended(sent uint64) {
	a.begun, a.end = true, max(a.end, sent)
}

// Counts returns the account as it stands. What is under way counts as lost until it comes.
func (a *Account) Counts() Counts {
	counts := a.counts
	if a.begun {
		counts.Lost = a.end - a.first - counts.Received - counts.Late
	}
	return counts
}
