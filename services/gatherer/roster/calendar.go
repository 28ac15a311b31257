package roster

import "time"

// calendar tells whether the machine's clock says how old something is. When it was set forward, all that came before
// looks older than it is: of what has an age by then nothing is known until so much time has passed that it is as old in truth.
type calendar struct {
	date   time.Time     // by the clock that can be set,
	passed time.Duration // and by the one that cannot, when it was last looked
	begun  bool
	leapt  time.Duration // by the latter, when the clock was set forward last
	astray bool          // it was ever
}

// leap is more than what clocks differ by from one look to the next while nobody sets them.
const leap = time.Minute

// look takes what both clocks say now, and reports whether the one was set forward since the last look.
func (c *calendar) look(date time.Time, passed time.Duration) (leapt bool) {
	if leapt = c.begun && date.Sub(c.date)-(passed-c.passed) > leap; leapt {
		c.leapt, c.astray = passed, true
	}
	c.date, c.passed, c.begun = date, passed, true
	return leapt
}

// dateFor returns the date to tell by what is older than an age; zero if nothing can be said to be.
func (c *calendar) dateFor(age time.Duration) time.Time {
	if c.astray && c.passed-c.leapt <= age {
		return time.Time{}
	}
	return c.date
}
