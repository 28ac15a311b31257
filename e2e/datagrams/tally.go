package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// tally is what came to all members of a stream.
type tally struct {
	sent      int // to each member
	members   int
	ages      []time.Duration // of what came
	recovered int
	late      int
	carried   uint64 // datagrams on all links, parity included
	held      uint64
}

// delivered returns the share of what was sent that members got.
func (t tally) delivered() float64 { return float64(len(t.ages)) / float64(t.sent*t.members) }

// age returns the greatest age within a share of what came.
func (t tally) age(share float64) time.Duration {
	if len(t.ages) == 0 {
		return 0
	}
	slices.Sort(t.ages)
	return t.ages[min(int(share*float64(len(t.ages))), len(t.ages)-1)]
}

// effort says how many datagrams were sent over links for each one that was delivered.
func (t tally) effort() string {
	if t.carried == 0 || len(t.ages) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", float64(t.carried)/float64(len(t.ages)))
}

// read reads what a member wrote.
func (t *tally) read(output string) error {
	for line := range strings.Lines(output) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		var err error
		switch word {
		case "got":
			var number, age int64
			_, err = fmt.Sscan(rest, &number, &age)
			t.ages = append(t.ages, time.Duration(age)*time.Microsecond)
		case "account":
			var received, recovered, late, lost int
			if _, err = fmt.Sscan(rest, &received, &recovered, &late, &lost); err == nil && received+late+lost != t.sent {
				err = fmt.Errorf("the account is of %d datagrams, and %d were sent", received+late+lost, t.sent)
			}
			t.recovered += recovered
			t.late += late
			t.members++
		case "sent":
			_, err = fmt.Sscan(rest, &t.sent)
		case "link":
			var from, to string
			var sent, held, lost, trips uint64
			_, err = fmt.Sscan(rest, &from, &to, &sent, &held, &lost, &trips)
			t.carried += sent
			t.held += held
		}
		if err != nil {
			return fmt.Errorf("read %q: %w", line, err)
		}
	}
	return nil
}
