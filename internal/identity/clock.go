package identity

import (
	"sync/atomic"
	"time"
)

// Clock is the managers' clock, as far as a node knows it: statements of the
// managers are dated by it. The zero value is the local clock.
type Clock struct{ ahead atomic.Int64 }

// Learn takes what a manager's clock showed just now.
func (c *Clock) Learn(manager time.Time) { c.ahead.Store(int64(time.Until(manager))) }

// Now returns the time by the managers' clock.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }
