package identity

import (
	"sync/atomic"
	"time"
)

// Clock is the managers' clock, as far as a node knows it: the managers date their statements by it. The zero value is the
// local clock.
//
// After a manager has told the time, the clock counts the time that passes here. It ignores the machine's date, which may be
// changed while no manager can be asked: then every statement would seem too old, or too new. While a machine is suspended
// no time passes: a node that wakes up is behind until a manager answers, and until then refuses what was stated meanwhile.
type Clock struct{ told atomic.Pointer[told] }

// told is what a manager's clock showed, and the local time then.
type told struct{ manager, local time.Time }

// Learn takes what a manager's clock shows just now.
func (c *Clock) Learn(manager time.Time) { c.told.Store(&told{manager, time.Now()}) }

// Now returns the time by the managers' clock.
func (c *Clock) Now() time.Time { return c.at(time.Now()) }

// at returns the managers' time at a local moment. Both local times have a reading of the monotonic clock, which is never set.
func (c *Clock) at(local time.Time) time.Time {
	last := c.told.Load()
	if last == nil {
		return local
	}
	return last.manager.Add(local.Sub(last.local))
}
