package roster_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/services/gatherer/roster"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// clocks are a machine's: one is set now and then, the other never.
type clocks struct {
	*testing.T
	calendar roster.Calendar
	date     time.Time
	passed   time.Duration
}

const oldest = 48 * time.Hour

// pass lets time pass, a look each minute, and returns whether ages were known at the end.
func (c *clocks) pass(d time.Duration) (known bool) {
	for ; d > 0; d -= time.Minute {
		c.date, c.passed = c.date.Add(time.Minute), c.passed+time.Minute
		c.calendar.Look(c.date, c.passed)
		date := c.calendar.DateFor(oldest)
		known = !date.IsZero()
		if known && !date.Equal(c.date) {
			c.Fatalf("the date is %v, and was said to be %v", c.date, date)
		}
	}
	return known
}

func (c *clocks) set(by time.Duration) { c.date = c.date.Add(by) }

func (c *clocks) want(what string, known, want bool) {
	c.Helper()
	if known != want {
		c.Errorf("%s: ages are known: %t, want %t", what, known, want)
	}
}

// A clock that is set forward makes nothing old: until all that was there is as old in truth, nothing goes for its age.
func TestClockThatIsSetForwardMakesNothingOld(t *testing.T) {
	c := &clocks{T: t, date: time.Unix(1e9, 0)}
	c.want("from the first look on", c.pass(time.Minute), true)
	c.set(365 * 24 * time.Hour)
	c.want("a year ahead", c.pass(oldest), false)
	c.want("when all is as old as it looks", c.pass(2*time.Minute), true)
	c.set(2 * time.Minute)
	c.want("two minutes ahead", c.pass(oldest/2), false)
	c.set(2 * time.Minute)
	c.want("and again", c.pass(oldest-time.Minute), false)
	c.want("when all is as old as it looks again", c.pass(3*time.Minute), true)
}

// A clock that is set back makes all younger, which removes nothing; one that runs a little fast is believed.
func TestOtherClocksAreBelieved(t *testing.T) {
	c := &clocks{T: t, date: time.Unix(1e9, 0)}
	c.pass(time.Minute)
	c.set(-365 * 24 * time.Hour)
	c.want("a year back", c.pass(time.Minute), true)
	for range 100 {
		c.set(time.Second)
		c.want("a second in each minute", c.pass(time.Minute), true)
	}
}

// A clock that is set forward keeps what came before for as long as it is to be kept, and no longer: what was abandoned, which is
// to stay for a week, has that no longer either.
func TestClockThatIsSetForwardKeepsNothingForLong(t *testing.T) {
	f := start(t, policy.Policy{}, func(env *roster.Env) { env.Retention = sink.Retention{Age: time.Hour} })
	f.bring(f.attach("alice"), "f", []byte("content"))
	var store roster.Keeper
	begun := time.Now().Round(0)
	const ahead = 10 * time.Minute
	f.RetainAt(&store, begun, 0)
	for _, one := range []struct {
		passed time.Duration
		there  bool
	}{{time.Minute, true}, {55 * time.Minute, true}, {time.Hour + 2*time.Minute, false}} {
		f.RetainAt(&store, begun.Add(ahead+one.passed), one.passed)
		if _, err := os.Stat(filepath.Join(f.Dir, "alice/f")); (err == nil) != one.there {
			t.Errorf("after %v: the file is there: %t, want %t", one.passed, err == nil, one.there)
		}
	}
}
