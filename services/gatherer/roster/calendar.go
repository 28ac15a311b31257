package roster

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/algo/moment"
)

// calendar tells how old something is whose date is by the machine's clock. When that is set, or stands still with the machine, what came before
// looks older or younger than it is: nothing is taken for older than it may be by both clocks.
type calendar struct {
	date   time.Time     // by the clock that can be set,
	passed time.Duration // and by the one that cannot, when it was last looked
	eras   []era         // the oldest first
	oldest time.Duration // the greatest age that was asked for
}

// era is a time in which the clock was not set.
type era struct {
	from time.Duration // when it began, or somewhat before: that was the last look of the era before
	seen time.Duration // the first look
	zero time.Time     // the date when nothing had passed, by what it showed last
}

func (e era) dateAt(passed time.Duration) time.Time { return e.zero.Add(passed) }

// apart is more than what clocks differ by from one look to the next while nobody sets them.
const apart = time.Minute

// look takes what both clocks say now, and returns by how much the one was set forward since the last look; zero if it was not.
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
		c.eras = c.eras[1:] // what came then is older than anybody asks
	}
	return ahead
}

// dateFor returns the date to tell by what is older than an age: what has an earlier one than anything that came since.
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

// uptime is by a clock that nobody sets, and that goes on while the machine is suspended.
func uptime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // every kernel has it
	return time.Duration(now.Nano())
}
