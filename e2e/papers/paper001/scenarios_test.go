package paper001

import (
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/papers/experiment"
	"github.com/groupcast/groupcast/e2e/papers/gathering"
	"github.com/groupcast/groupcast/internal/algo/window"
	"github.com/groupcast/groupcast/sdk/gather"
)

func all001() map[string]scenario {
	return map[string]scenario{"1": first(), "2": second(), "3": third(), "4": fourth(), "5": fifth(), "6": sixth()}
}

// 001 §4.1 and §5.2: the delays of the senders, the buffers, and what changes when.
func TestScenariosAreTheThesiss(t *testing.T) {
	for name, want := range map[string]struct {
		long   int
		delays string // of the long ones, and of the short
		buffer link.Bytes
		access link.Rate
	}{
		"1": {3, "35ms 45ms 55ms 10ms", 128 * link.KiB, 4 * link.Mbit},
		"2": {3, "35ms 45ms 55ms 255ms", 32 * link.KiB, 4 * link.Mbit},
		"3": {6, "35ms 45ms 55ms 65ms 75ms 85ms 95ms", 128 * link.KiB, 4 * link.Mbit},
		"4": {3, "35ms 45ms 55ms 10ms", 128 * link.KiB, 4 * link.Mbit},
		"5": {2, "35ms 35ms", 128 * link.KiB, 4 * link.Mbit},
		"6": {20, strings.Repeat("50ms ", 5) + strings.Repeat("70ms ", 5) + strings.Repeat("50ms ", 5) + strings.TrimSpace(strings.Repeat("80ms ", 5)), 128 * link.KiB, 20 * link.Mbit},
	} {
		s := all001()[name]
		c := s.network(window.Groupcast, 1, 10)
		var delays []string
		for _, one := range c.Terminals {
			delays = append(delays, one.Delay.String())
		}
		if got := strings.Join(delays, " "); len(s.long) != want.long || got != want.delays || s.buffer != want.buffer || c.Access.Rate != want.access {
			t.Errorf("scenario %s: %d long ones, %s, buffer %v, access %v", name, len(s.long), got, s.buffer, c.Access.Rate)
		}
		if got := strings.Join(c.Flags, " "); got != "--check-interval 500ms" {
			t.Errorf("scenario %s in a tenth of the time: %s", name, got)
		}
	}
	for _, s := range all001() {
		if got := s.scale(experiment.Options{Duration: s.until / 20}); got != 20 {
			t.Errorf("a twentieth of the time: scale %v", got)
		}
	}
}

// The best lines cover the time from the beginning to the end, and ask of no link more than it
// carries beside UDP. "The throughput of group A and group B decreases to about 2.5 Mbps from 500
// to 600 seconds" (§5.2.2).
func TestBestLinesFit(t *testing.T) {
	for _, s := range []scenario{fifth(), sixth()} {
		end := time.Duration(0)
		for _, one := range s.best {
			if one.from != end || one.total() > s.access {
				t.Errorf("%v to %v after %v: %v of %v", one.from, one.until, end, one.total(), s.access)
			}
			end = one.until
			for i, router := range s.routers {
				if carried := s.over(i+1, one); carried > router.Rate+10 {
					t.Errorf("%v to %v: link %d carries %v of %v", one.from, one.until, i+1, carried, router.Rate)
				}
			}
		}
		if end != s.until {
			t.Errorf("the best line ends at %v of %v", end, s.until)
		}
	}
}

// over returns the rate over a router's link in a phase.
func (s scenario) over(router int, at phase) (sum link.Rate) {
	seen := map[string]bool{}
	for _, one := range s.long {
		if one.router == router && !seen[one.group] {
			sum += at.groups[one.group]
		}
		seen[one.group] = true
	}
	for _, udp := range s.udp {
		for _, period := range udp.schedule {
			if udp.router == router && period.From <= at.from && at.from < period.Until {
				sum += period.Rate
			}
		}
	}
	return sum
}

// What was seen is converted to the thesis's time, and a phase is judged from when it may have settled.
func TestPhasesAreJudgedWhenSettled(t *testing.T) {
	p := &played{scenario: fifth(), faster: 10, begin: 4, Seen: &gathering.Seen{}}
	for x := 4.5; x <= 64; x += .5 {
		y := 100.
		if x > 14 && x <= 19 { // from 100 to 150 s of the thesis
			y = 50
		}
		p.Utilization.Points = append(p.Utilization.Points, measure.Point{X: x, Y: y})
		p.Rounds = append(p.Rounds, gathering.Round{At: x, Snapshot: gather.Snapshot{Clients: []gather.ClientStatus{{Name: "a", Received: uint64(x * 125000)}}}})
	}
	if got := p.clock(p.Utilization).Points[0].X; got != 5 {
		t.Errorf("the first point is at %v s of the thesis, want 5", got)
	}
	for i, want := range []float64{100, 100, 100} {
		if got := p.followed(p.best[i]); got < want-3 || got > want {
			t.Errorf("phase %d: %.1f %% of the best line", i, got)
		}
	}
	if got := p.mean(p.Utilization, 100*time.Second, 150*time.Second); got > 60 {
		t.Errorf("before it has settled: %.1f %%", got)
	}
	if got := p.mean(p.group("A"), 0, p.until); got < 1.03 || got > 1.04 {
		t.Errorf("1 Mbit/s is %.3f with headers", got)
	}
}
