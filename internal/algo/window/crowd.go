package window

import "time"

// crowd is what is known of others who fill a queue and are not controlled here.
type crowd struct {
	there bool
	came  time.Time // when they were first noticed
	usual Rate      // what has come beside them since
	left  time.Time // when they were last taken to have gone, although a queue stood
	// If that was wrong, it is not done again before until, stay later, which is longer each time.
	until time.Time
	stay  time.Duration
}

const (
	// freed is how many times what came beside others must come for them to have gone. What came beside them is known after
	// settling, and is the mean of some usualSteps.
	freed, usualSteps, settling = 1.3, 20, 5 * time.Second
	// soon is within what time others are back if they had not really gone.
	soon = 15 * time.Second
)

// come notes that they are there.
func (c *crowd) come(now time.Time) {
	if c.there {
		return
	}
	if c.justLeft(now) {
		c.stay = min(max(firstAgain, 2*c.stay), lastAgain)
		c.until = now.Add(c.stay)
	}
	c.there, c.came, c.usual = true, now, 0
}

// gone notes that no queue stands any more.
func (c *crowd) gone() { c.there, c.stay = false, 0 }

// doubt notes that as much comes as if they had gone: the queue may be only ours.
func (c *crowd) doubt(now time.Time) {
	if c.there && !now.Before(c.until) {
		c.there, c.left = false, now
	}
}

// frees reports whether so much more comes than did beside the others that they must have gone.
func (c *crowd) frees(now time.Time, delivered Rate) bool {
	switch {
	case !c.there:
		return false
	case now.Sub(c.came) <= settling:
		c.usual = max(c.usual, delivered)
	case delivered > freed*c.usual:
		c.there, c.left = false, now
		return true
	default:
		c.usual += (delivered - c.usual) / usualSteps
	}
	return false
}

// justLeft reports whether the others were taken to have gone a moment ago.
func (c *crowd) justLeft(now time.Time) bool { return now.Sub(c.left) < soon }
