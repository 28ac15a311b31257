package identity

import (
	"sync/atomic"
	"time"
)

// Clock is the managers' clock, as far as a node knows it: statements of the managers are dated by it. The zero value is the
// local clock.
//
// From a manager's word on it goes by the time that passes here, not by the machine's date: that may be set while no manager
// can be asked, and every statement would be too old, or too new. While a machine is suspended no time passes: a node that
// wakes up is behind until a manager answers, and until then refuses what was stated meanwhile.
type Clock struct{ told atomic.Pointer[told] }

// told is what a manager's clock showed, and when that was here.
type told struct{ manager, local time.Time }

// Learn takes what a manager's clock showed just now.
func (c *Clock) Learn(manager time.Time) { c.told.Store(&told{manager, time.Now()}) }

// Now returns the time by the managers' clock.
func (c *Clock) Now() time.Time { return c.at(time.Now()) }

// at returns the time by the managers' clock of a moment here: both have a reading of the clock that is never set.
func (c *Clock) at(local time.Time) time.Time {
	last := c.told.Load()
	if last == nil {
		return local
	}
	return last.manager.Add(local.Sub(last.local))
}
