package roster_test

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/services/gatherer/roster"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// clocks are a machine's: one is set now and then, the other never. Something comes at each look.
type clocks struct {
	*testing.T
	calendar roster.Calendar
	date     time.Time
	passed   time.Duration
	came     []comer
}

// comer is something that came, with the time by both clocks.
type comer struct {
	date   time.Time
	passed time.Duration
}

const (
	oldest    = 48 * time.Hour
	lookEvery = 10 * time.Minute
)

// pass lets time pass. What is removed has to be old enough in truth, and what is old enough has to be removed, but for some slack.
func (c *clocks) pass(d, late time.Duration) {
	c.Helper()
	for ; d > 0; d -= lookEvery {
		c.date, c.passed = c.date.Add(lookEvery), c.passed+lookEvery
		c.calendar.Look(c.date, c.passed)
		date := c.calendar.DateFor(oldest)
		c.came = slices.DeleteFunc(c.came, func(one comer) bool {
			age, goes := c.passed-one.passed, date.Sub(one.date) > oldest
			if goes && age <= oldest || !goes && age > oldest+late {
				c.Fatalf("at %v: what is %v old goes: %t", c.passed, age, goes)
			}
			return goes
		})
		c.came = append(c.came, comer{c.date, c.passed})
	}
}

func (c *clocks) setBy(by time.Duration) { c.date = c.date.Add(by) }

func newClocks(t *testing.T) *clocks { return &clocks{T: t, date: time.Unix(1e9, 0)} }

// A clock that is set forward makes nothing older, and keeps nothing for more than a look longer: neither what came before that nor what
// comes after.
func TestClockThatIsSetForwardMakesNothingOld(t *testing.T) {
	c := newClocks(t)
	c.pass(time.Hour, 0)
	for _, by := range []time.Duration{365 * 24 * time.Hour, 2 * time.Minute, 2 * time.Minute} {
		c.setBy(by)
		c.pass(oldest/3, lookEvery)
	}
	c.pass(2*oldest, lookEvery)
}

// A machine whose clock leaps each night, as when its host pauses it, keeps nothing for long.
func TestClockThatLeapsEachNight(t *testing.T) {
	c := newClocks(t)
	for range 10 {
		c.pass(24*time.Hour, lookEvery)
		c.setBy(2 * time.Minute)
	}
}

// A clock that is set back makes everything younger, which removes nothing. One that runs a little fast is believed. Whatever is done to
// the clock, nothing is removed too early.
func TestOtherClocksAreBelieved(t *testing.T) {
	c := newClocks(t)
	c.pass(time.Hour, 0)
	c.setBy(-24 * time.Hour)
	c.pass(2*oldest, 24*time.Hour)
	c = newClocks(t)
	for range 1000 {
		if by := c.calendar.Look(c.date, c.passed); by != 0 {
			t.Fatalf("it is said to be set forward by %v", by)
		}
		c.date, c.passed = c.date.Add(time.Minute+time.Second), c.passed+time.Minute
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c, random := newClocks(t), rand.New(rand.NewPCG(seed, 8))
	for range 40 {
		c.pass(time.Duration(random.IntN(1000))*time.Minute, math.MaxInt64-oldest)
		c.setBy(time.Duration(random.IntN(2000)-1000) * 5 * time.Minute)
	}
}

// When a clock is set forward, what came before stays for as long as it has to be kept in truth, and no longer, although abandoned parts
// are kept for a week.
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
