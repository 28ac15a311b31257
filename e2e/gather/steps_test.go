package gather_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/papers/gathering"
	"github.com/groupcast/groupcast/internal/algo/window"
	"github.com/groupcast/groupcast/sdk/gather"
)

// mbit is a million bits per second, in the bytes of a policy.
const mbit = 125_000

// terminal is a client on a path of its own to the link that all share.
func terminal(name string, delay time.Duration, share gather.Share) gathering.Terminal {
	return gathering.Terminal{Name: name, Delay: delay, Share: share}
}

// observe runs a case with our controller and a script.
func observe(t *testing.T, c gathering.Case, script gathering.Script) *gathering.Seen {
	t.Helper()
	labtest.Require(t)
	c.Controller, c.Congestion = window.Default, "cubic"
	seen, err := gathering.Run(t.Context(), c, script)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d, %d packets dropped, late %v", c.Seed, seen.Dropped, seen.Late)
	tell(t, seen, int(seen.Took.Seconds()))
	return seen
}

// meanOver is over how long rates are averaged: windows act in round trips, of which half a second has few if
// they are long.
const meanOver = 2.

// after returns how many seconds it takes from a time on until something has a rate, in Mbit/s, over
// the next two seconds.
func after(from, until, least float64, rate func(from, until float64) float64) float64 {
	for at := from; at+meanOver <= until; at += .25 {
		if rate(at, at+meanOver) >= least {
			return at - from
		}
	}
	return math.Inf(1)
}

// all returns what clients get together.
func all(s *gathering.Seen, clients ...string) func(from, until float64) float64 {
	return func(from, until float64) (sum float64) {
		for _, name := range clients {
			sum += s.Rate(name, from, until)
		}
		return sum
	}
}

// "targets held within 5 % over any 10 s window while capacity is at least the sum of targets; convergence
// within 3 s of a join, a leave and a policy change": by then, 95 % of what a leave frees is used.
func TestSharesAfterSteps(t *testing.T) {
	t.Parallel()
	const join, leave, change, end, held = 15, 30, 45, 60, 10
	wards, archives := gather.Share{Target: 2 * mbit, Minimum: mbit, Priority: 1}, gather.Share{Target: mbit, Minimum: mbit / 2}
	c := gathering.Case{
		Seed: 71, Access: link.Shape{Rate: 8 * link.Mbit, Queue: link.Size(200 * link.KiB)},
		Terminals: []gathering.Terminal{
			terminal("a", 10*time.Millisecond, wards), terminal("b", 40*time.Millisecond, wards),
			terminal("c", 20*time.Millisecond, archives), terminal("d", 60*time.Millisecond, archives),
		},
	}
	var joined, left, changed float64
	seen := observe(t, c, func(s *gathering.Site) error {
		leaves := map[string]func(){}
		stream := func(names ...string) (err error) {
			for _, name := range names {
				if leaves[name], err = s.Stream(name); err != nil {
					return err
				}
			}
			return nil
		}
		if err := stream("a", "b", "c"); err != nil {
			return err
		}
		if err := s.Until(join * time.Second); err != nil {
			return err
		}
		joined = s.Now().Seconds()
		if err := stream("d"); err != nil {
			return err
		}
		if err := s.Until(leave * time.Second); err != nil {
			return err
		}
		left = s.Now().Seconds()
		leaves["a"]()
		if err := s.Until(change * time.Second); err != nil {
			return err
		}
		changed = s.Now().Seconds()
		if err := s.SetPolicy(gather.Policy{Rules: []gather.Rule{
			{Clients: []string{"b"}, Share: wards}, {Clients: []string{"c"}, Share: gather.Share{Target: 3 * mbit, Minimum: mbit}}, {Clients: []string{"d"}, Share: archives},
		}}); err != nil {
			return err
		}
		return s.Until(end * time.Second)
	})
	for _, one := range []struct {
		client       string
		from, target float64
		until        float64
	}{{"d", joined, 1, left}, {"c", changed, 3, end}} {
		took := after(one.from, one.until, .95*one.target, all(seen, one.client))
		t.Logf("%s has 95 %% of %.0f Mbit/s after %.2f s", one.client, one.target, took)
		if took > 3 {
			t.Errorf("%s has its target after %.2f s, want at most 3", one.client, took)
		}
	}
	full := all(seen, "a", "b", "c", "d")(join-5, join)
	took := after(left, changed, .95*full, all(seen, "b", "c", "d"))
	t.Logf("of %.2f Mbit/s 95 %% are used again %.2f s after a has left", full, took)
	if took > 3 {
		t.Errorf("what was freed is used after %.2f s, want at most 3", took)
	}
	for _, one := range []struct {
		client              string
		target, from, until float64
	}{
		{"a", 2, 5, left}, {"b", 2, 5, end}, {"c", 1, 5, changed}, {"c", 3, changed + 3, end}, {"d", 1, joined + 3, end},
	} {
		worst := seen.Worst(one.client, held, one.from, one.until)
		t.Logf("%s: %.2f Mbit/s in the worst 10 s from %.0f to %.0f s, target %.0f", one.client, worst, one.from, one.until, one.target)
		if worst < .95*one.target {
			t.Errorf("%s has %.2f Mbit/s in its worst 10 s, want 95 %% of %.0f", one.client, worst, one.target)
		}
	}
}

// C65: the link carries 100, then 10, then 100 Mbit/s. While it carries 10, all have their minimum, and those of
// higher priority more; targets are met again when they fit. Nobody is told to change the number of its connections
// more than six times a minute, and rates do not swing.
func TestC65LinkChangesItsRate(t *testing.T) {
	const down, up, end = 12, 32, 47
	c := gathering.Case{Seed: 65, Access: link.Shape{Rate: 100 * link.Mbit, Queue: link.Size(512 * link.KiB)}}
	for i := range 4 {
		share := gather.Share{Target: 10 * mbit, Minimum: 2 * mbit}
		if i < 2 {
			share.Priority = 1
		}
		c.Terminals = append(c.Terminals, terminal(fmt.Sprint("t", i), time.Duration(5+5*i)*time.Millisecond, share))
	}
	seen := observe(t, c, func(s *gathering.Site) error {
		if err := s.StreamAll(); err != nil {
			return err
		}
		for _, step := range []struct {
			at   time.Duration
			rate link.Rate
		}{{down * time.Second, 10 * link.Mbit}, {up * time.Second, 100 * link.Mbit}} {
			if err := s.Until(step.at); err != nil {
				return err
			}
			if err := s.Carry(step.rate); err != nil {
				return err
			}
		}
		return s.Until(end * time.Second)
	})
	for _, one := range c.Terminals {
		before, narrow, again := seen.Rate(one.Name, 5, down), seen.Rate(one.Name, down+5, up), seen.Rate(one.Name, up+5, end)
		t.Logf("%s: %.1f, %.2f and %.1f Mbit/s of a target of %.0f; %d changes", one.Name, before, narrow, again, one.Target(), changes(seen, one.Name))
		if before < .95*one.Target() || again < .95*one.Target() {
			t.Errorf("%s has %.1f and %.1f Mbit/s where its target of %.0f fits", one.Name, before, again, one.Target())
		}
		if narrow < .9*2 {
			t.Errorf("%s has %.2f Mbit/s, want its minimum of 2", one.Name, narrow)
		}
		if n := changes(seen, one.Name); n > 6 {
			t.Errorf("%s is told %d times in a minute to have another number of connections, want at most 6", one.Name, n)
		}
		if worst := seen.Worst(one.Name, 4, down+5, up); worst < .7*narrow {
			t.Errorf("%s has %.2f Mbit/s and at times %.2f: it swings", one.Name, narrow, worst)
		}
	}
	for i := range 2 { // two of each priority
		high, low := seen.Rate(c.Terminals[i].Name, down+5, up), seen.Rate(c.Terminals[i+2].Name, down+5, up)
		if high < 1.2*low {
			t.Errorf("%.2f Mbit/s of the higher priority, %.2f of the lower, with the same target", high, low)
		}
	}
}

// A client without target and cap is about as fast as without a controller. If processors are short, what came is
// read late, which costs short windows more than long ones. So the best three seconds of both are compared.
func TestUnboundClientIsAsFastAsTCP(t *testing.T) {
	labtest.Require(t)
	const end = 10
	c := gathering.Case{
		Seed: 72, Congestion: "cubic", Access: link.Shape{Rate: 100 * link.Mbit, Queue: link.Size(512 * link.KiB)},
		Terminals: []gathering.Terminal{terminal("near", 2*time.Millisecond, gather.Share{})},
	}
	ours, plain := c, c
	ours.Controller, plain.Controller = window.Default, window.Traditional
	seen, err := gathering.Beside(t.Context(), []gathering.Case{ours, plain}, func(s *gathering.Site) error {
		if err := s.StreamAll(); err != nil {
			return err
		}
		return s.Until(end * time.Second)
	})
	if err != nil {
		t.Fatal(err)
	}
	tell(t, seen[0], end)
	tell(t, seen[1], end)
	got, tcp := best(seen[0], "near", 3, end), best(seen[1], "near", 3, end)
	t.Logf("seed %d: %.1f Mbit/s, TCP alone %.1f; late %v and %v", c.Seed, got, tcp, seen[0].Late, seen[1].Late)
	if got < .7*tcp {
		t.Errorf("%.1f Mbit/s, TCP alone %.1f", got, tcp)
	}
}

// A client that is so far away that one window does not do has its target over several connections, whose windows together are not
// much more than the path holds.
func TestFarClientHasItsTargetOverSeveralConnections(t *testing.T) {
	const rate, target, begun, end = 60, 45, 20, 40
	const delay = 200 * time.Millisecond
	c := gathering.Case{
		Seed: 74, Access: link.Shape{Rate: rate * link.Mbit, Queue: link.Size(3 * link.MiB)},
		Terminals: []gathering.Terminal{terminal("far", delay, gather.Share{Target: target * mbit})},
	}
	seen := observe(t, c, func(s *gathering.Site) error {
		if err := s.StreamAll(); err != nil {
			return err
		}
		return s.Until(end * time.Second)
	})
	holds := rate * mbit * (2 * delay).Seconds()
	windows, least, n := 0., math.MaxInt, 0
	for _, round := range seen.Rounds {
		if round.At >= begun {
			windows, least, n = windows+float64(round.Clients[0].Window), min(least, round.Clients[0].Connections), n+1
		}
	}
	windows /= float64(n) * holds
	worst := seen.Worst("far", 10, begun, end)
	t.Logf("%.1f Mbit/s in the worst 10 s, %d connections at least, windows of %.2f of what the path holds", worst, least, windows)
	if worst < .85*target || least < 2 || windows > 1.3 { // a machine that is busy reads late, and its windows are open late
		t.Errorf("%.1f Mbit/s in the worst 10 s, want 85 %% of %d; %d connections; windows of %.2f of what the path holds, want at most 1.3", worst, target, least, windows)
	}
}

// best returns the highest mean rate of a client over so many seconds, in Mbit/s.
func best(s *gathering.Seen, client string, span, until float64) (best float64) {
	for from := 0.; from+span <= until; from += .5 {
		best = max(best, s.Rate(client, from, from+span))
	}
	return best
}

// changes returns how often a client was told another number of connections.
func changes(s *gathering.Seen, client string) (n int) {
	last := 0
	for _, round := range s.Rounds {
		for _, c := range round.Clients {
			if c.Name == client && c.Wanted != last {
				if last != 0 {
					n++
				}
				last = c.Wanted
			}
		}
	}
	return n
}

// C63: a client acknowledges what it is sent 20 times later than before, so that its round trips seem long. It
// gets no more by that, and the others get what they should, and no less than before.
func TestC63LateAcknowledgements(t *testing.T) {
	t.Parallel()
	const late, end = 15, 40
	const delay = 10 * time.Millisecond
	share := gather.Share{Target: 2 * mbit, Minimum: mbit}
	c := gathering.Case{
		Seed: 63, Access: link.Shape{Rate: 8 * link.Mbit, Queue: link.Size(200 * link.KiB)},
		Terminals: []gathering.Terminal{terminal("liar", delay, share), terminal("b", 2*delay, share), terminal("c", 3*delay, share)},
	}
	seen := observe(t, c, func(s *gathering.Site) error {
		if err := s.StreamAll(); err != nil {
			return err
		}
		if err := s.Until(late * time.Second); err != nil {
			return err
		}
		if err := s.Answer("liar", 20*2*delay); err != nil {
			return err
		}
		return s.Until(end * time.Second)
	})
	for _, name := range []string{"b", "c"} {
		before, since, worst := seen.Rate(name, 5, late), seen.Rate(name, late, end), seen.Worst(name, 5, late, end)
		t.Logf("%s: %.2f Mbit/s before, %.2f since, %.2f in the worst 5 s of that", name, before, since, worst)
		if worst < .9*2 || since < .9*before {
			t.Errorf("%s has %.2f Mbit/s beside a liar, and %.2f in its worst 5 s, want 90 %% of the %.2f before, and of its target of 2", name, since, worst, before)
		}
	}
	before, since := seen.Rate("liar", 5, late), seen.Rate("liar", late+5, end)
	t.Logf("the liar: %.2f Mbit/s before, %.2f since", before, since)
	if since > 1.1*before {
		t.Errorf("the liar has %.2f Mbit/s, before it lied %.2f", since, before)
	}
}

// tell logs what the clients got, second by second.
func tell(t *testing.T, s *gathering.Seen, until int) {
	t.Helper()
	for at := range until {
		line := fmt.Sprintf("%2d s:", at)
		for _, one := range s.Terminals {
			line += fmt.Sprintf(" %s %6.2f", one.Name, s.Rate(one.Name, float64(at), float64(at)+1.3))
		}
		for _, round := range s.Rounds {
			if round.At >= float64(at) {
				line += fmt.Sprintf("  of %.2f Mbit/s", float64(round.Available)*8e-6)
				for _, c := range round.Clients {
					line += fmt.Sprintf("; %s %v win %d x%d %s %s", c.Name, c.RTT.Round(time.Millisecond), c.Window, c.Connections, c.Reason, c.Bottleneck)
				}
				break
			}
		}
		t.Log(line)
	}
}

// A connection that begins or ends within a round counts with what came in that round, and not with its rate while it was
// there: what is said to come in all is never more than the link carries.
func TestNoMoreIsReceivedThanTheLinkCarries(t *testing.T) {
	t.Parallel()
	const rate, end = 4, 15
	c := gathering.Case{
		Seed: 73, Access: link.Shape{Rate: rate * link.Mbit, Queue: link.Size(128 * link.KiB)},
		Terminals: []gathering.Terminal{
			terminal("long", 40*time.Millisecond, gather.Share{}), terminal("short", 10*time.Millisecond, gather.Share{}),
		},
	}
	seen := observe(t, c, func(s *gathering.Site) error {
		if _, err := s.Stream("long"); err != nil {
			return err
		}
		_, err := s.Upload(gathering.Short{Terminal: "short", Count: 30, Size: 30e3, Interval: 400 * time.Millisecond, Seed: 1})
		if err != nil {
			return err
		}
		return s.Until(end * time.Second)
	})
	most := uint64(0)
	for _, round := range seen.Rounds {
		most = max(most, round.Received)
	}
	t.Logf("%.2f Mbit/s at most in %d rounds", float64(most)/mbit, len(seen.Rounds))
	if len(seen.Rounds) < 20 || most > 11*rate*mbit/10 {
		t.Errorf("%.2f Mbit/s are said to have come of %d, in one of %d rounds", float64(most)/mbit, rate, len(seen.Rounds))
	}
}
