package roster

import "time"

// calendar tells whether the machine's clock says how old something is. When it was set forward, all that came before
// looks older than it is: nothing is known of ages, then, until so much time has passed that it is as old in truth.
type calendar struct {
	date   time.Time     // by the clock that can be set,
	passed time.Duration // and by the one that cannot, when it was last looked
	begun  bool
	leapt  time.Duration // by the latter, when the clock was set forward last
	astray bool          // it was, and what came before may be younger than it looks
}

// leap is more than what clocks differ by from one look to the next while nobody sets them.
const leap = time.Minute

// look takes what both clocks say now, and returns the date; zero if nothing that old may be removed for its age.
func (c *calendar) look(date time.Time, passed, oldest time.Duration) time.Time {
	if c.begun && date.Sub(c.date)-(passed-c.passed) > leap {
		c.leapt, c.astray = passed, true
	}
	c.date, c.passed, c.begun = date, passed, true
	c.astray = c.astray && passed-c.leapt <= oldest
	if c.astray {
		return time.Time{}
	}
	return date
}
