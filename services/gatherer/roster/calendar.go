package roster

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/algo/moment"
)

// calendar tells how old something is that is dated by the machine's clock. When that clock is set, or stands still with the machine,
// what came before looks older or younger than it is. Nothing is taken to be older than both clocks allow.
type calendar struct {
	date   time.Time     // at the last look, by the clock that can be set
	passed time.Duration // at the last look, by the one that cannot
	eras   []era         // the oldest first
	oldest time.Duration // the greatest age that was asked for
}

// era is a time in which the clock was not set.
type era struct {
	from time.Duration // the last look of the era before: it began then or later
	seen time.Duration // the first look
	zero time.Time     // the date at which the other clock was zero, by its last look
}

func (e era) dateAt(passed time.Duration) time.Time { return e.zero.Add(passed) }

// apart is more than the two clocks drift apart from one look to the next if nobody sets one.
const apart = time.Minute

// look takes what both clocks say now, and returns by how much the machine's was set forward since the last look; zero if it was not.
func (c *calendar) look(date time.Time, passed time.Duration) (ahead time.Duration) {
	by := date.Sub(c.date) - (passed - c.passed)
	switch isFirst := len(c.eras) == 0; {
	case isFirst:
		c.eras = []era{{passed, passed, time.Time{}}}
	case by.Abs() > apart:
		c.eras = append(c.eras, era{c.passed, passed, time.Time{}})
		ahead = max(0, by)
	}
	c.date, c.passed = date, passed
	c.eras[len(c.eras)-1].zero = date.Add(-passed)
	for len(c.eras) > 1 && c.eras[1].seen <= passed-c.oldest {
		c.eras = c.eras[1:] // what came in it is older than any age that was asked for
	}
	return ahead
}

// dateFor returns the date from which an age is counted back: whatever is dated before that is older than the age, by both clocks.
func (c *calendar) dateFor(age time.Duration) time.Time {
	c.oldest = max(c.oldest, age)
	since := c.passed - age
	var first time.Time
	for i, one := range c.eras {
		if i == 0 || one.seen <= since {
			first = one.dateAt(since)
		} else {
			first = moment.Soonest(first, one.dateAt(one.from))
		}
	}
	return first.Add(age)
}

// uptime returns the time of a clock that nobody sets, and that goes on while the machine is suspended.
func uptime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // every kernel has it
	return time.Duration(now.Nano())
}
