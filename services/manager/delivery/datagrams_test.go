package delivery

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
)

// streamed is a stream in datagrams, with what has come to its nodes, each of which reports once a second.
type streamed struct {
	*watched
	came map[string]*groupv1.DeliveryReport
}

func streaming(t *testing.T, links ...string) *streamed {
	s := &streamed{watching(t, links...), make(map[string]*groupv1.DeliveryReport)}
	s.progress.datagrams = true
	for _, name := range s.tree.Names() {
		s.came[placement.ParseID(name).Name] = &groupv1.DeliveryReport{}
	}
	return s
}

// pass has the sender send for some seconds, and all nodes that get it report; nobody is below a node that does not.
func (s *streamed) pass(seconds int, change func(second int, said map[string]*groupv1.DeliveryReport)) {
	for second := range seconds {
		change(second, s.came)
		for _, name := range s.tree.Names() { // in the tree's order: a feeder before those that it feeds
			id := placement.ParseID(name)
			s.note(id, s.came[id.Name], time.Now())
		}
		time.Sleep(time.Second)
	}
}

// more lets the named nodes get a datagram that the sender sends.
func more(said map[string]*groupv1.DeliveryReport, names string) {
	for name := range strings.FieldsSeq(names) {
		report := said[name]
		said[name] = &groupv1.DeliveryReport{Bytes: report.GetBytes() + 1000, Datagrams: report.GetDatagrams(), Trouble: report.GetTrouble()}
	}
}

// unserved returns the agents that are to be taken out, and the members that are to move, by now.
func (s *streamed) unserved() (names []string) {
	now, starved := time.Now(), s.starved()
	for _, name := range s.tree.Names() {
		id := placement.ParseID(name)
		if since := s.idleSince(id, true); id.Role == identity.Agent && !since.IsZero() && now.Sub(since) >= idlePatience {
			names = append(names, id.Name)
		}
		if from, starves := starved[id]; starves && !now.Before(from) {
			names = append(names, id.Name)
		}
	}
	slices.Sort(names)
	return names
}

// A node that gets nothing of a stream in datagrams while its feeder gets more is found out, and so is which node is to blame. A node is not
// that merely misses some of them, whose program takes none, or whose sender pauses.
func TestWhoGetsNoDatagrams(t *testing.T) {
	all := "s a b c m1 m2 m3 m4"
	without := func(names string, but ...string) string {
		return strings.Join(slices.DeleteFunc(strings.Fields(names), func(name string) bool { return slices.Contains(but, name) }), " ")
	}
	for name, test := range map[string]struct {
		change func(second int, said map[string]*groupv1.DeliveryReport)
		want   string
	}{
		"all get all": {func(_ int, said map[string]*groupv1.DeliveryReport) { more(said, all) }, ""},
		"an agent gets nothing, nor do those below it": {func(_ int, said map[string]*groupv1.DeliveryReport) {
			more(said, without(all, "b", "m2", "m3"))
		}, "b"},
		"the first agent gets nothing":                  {func(_ int, said map[string]*groupv1.DeliveryReport) { more(said, "s") }, "a"},
		"a member gets nothing":                         {func(_ int, said map[string]*groupv1.DeliveryReport) { more(said, without(all, "m2")) }, "m2"},
		"an agent's only member gets nothing":           {func(_ int, said map[string]*groupv1.DeliveryReport) { more(said, without(all, "m4")) }, "c"},
		"an agent gives nothing to the agents below it": {func(_ int, said map[string]*groupv1.DeliveryReport) { more(said, "s a m1") }, "a"},
		"an agent gives nothing to those that it feeds": {func(_ int, said map[string]*groupv1.DeliveryReport) { more(said, without(all, "m2", "m3")) }, "b"},
		"each gets a part, one of them a datagram in five": {func(second int, said map[string]*groupv1.DeliveryReport) {
			if more(said, without(all, "m2", "m3", "b")); second%2 == 0 {
				more(said, "b m3")
			}
			if second%10 == 4 {
				more(said, "m2")
			}
		}, ""},
		"there is a datagram now and then, and one misses some": {func(second int, said map[string]*groupv1.DeliveryReport) {
			switch {
			case second%7 != 0:
			case second%21 != 0:
				more(said, without(all, "m2"))
			default:
				more(said, all)
			}
		}, ""},
		"the sender pauses": {func(second int, said map[string]*groupv1.DeliveryReport) {
			if second < 4 {
				more(said, without(all, "m2"))
			}
		}, ""},
		"a member's program takes none": {func(_ int, said map[string]*groupv1.DeliveryReport) {
			more(said, without(all, "m2", "m4"))
			said["m2"] = &groupv1.DeliveryReport{Paused: true}
			said["m4"] = &groupv1.DeliveryReport{Paused: true}
		}, ""},
		"all is late at a member": {func(second int, said map[string]*groupv1.DeliveryReport) {
			more(said, without(all, "m2"))
			said["m2"] = &groupv1.DeliveryReport{Datagrams: &groupv1.DatagramCounts{Late: uint64(second)}}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := streaming(t, "s>a", "a>b", "a>c", "a>m1", "b>m2", "b>m3", "c>m4")
				s.pass(5, func(_ int, said map[string]*groupv1.DeliveryReport) { more(said, all) })
				s.pass(14, test.change)
				if got := s.unserved(); len(got) > 0 {
					t.Errorf("%v are unserved at once", got)
				}
				s.pass(40, test.change)
				if got := strings.Join(s.unserved(), " "); got != test.want {
					t.Errorf("unserved: %q, want %q", got, test.want)
				}
				if s.progress.trouble(time.Now()) {
					t.Error("somebody is in trouble")
				}
			})
		})
	}
}

// A member that moved because it got nothing has all the time that others have, whatever it missed before. Each time it has twice as long, for
// its own path may be what loses them.
func TestWhoGotNoDatagramsHasPatienceAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := streaming(t, "s>a", "a>b", "a>c", "b>m1", "b>m2", "c>m3")
		starve := func(_ int, said map[string]*groupv1.DeliveryReport) { more(said, "s a b c m2 m3") }
		from, to := "b", "c"
		for _, patience := range []time.Duration{idlePatience, 2 * idlePatience, 4 * idlePatience} {
			s.pass(int(patience/time.Second)-1, starve)
			if got := s.unserved(); len(got) > 0 {
				t.Errorf("%v are unserved sooner than after %v", got, patience)
			}
			s.pass(3, starve)
			if got := s.unserved(); !slices.Equal(got, []string{"m1"}) {
				t.Errorf("unserved are %v after %v", got, patience)
			}
			r := s.rearrangement()
			r.doubt(named(from), named("m1"))
			r.unfed = append(r.unfed, named("m1"))
			s.hold(r.findings)
			if s.pass(1, starve); len(s.unserved()) > 0 {
				t.Error("it would move again, and again, for what it says itself")
			}
			s.moves("m1")
			s.pass(1, func(_ int, said map[string]*groupv1.DeliveryReport) { more(said, "s a b c m1 m2 m3") })
			from, to = to, from
		}
	})
}

// A member that has got datagrams from one agent for long has the patience that others have, however often it moved before. It does not if it got
// none for a while meanwhile, or was fed by another.
func TestWhoGotDatagramsForLongHasPatienceAnew(t *testing.T) {
	all := func(_ int, said map[string]*groupv1.DeliveryReport) { more(said, "s a b c m1 m2 m3") }
	starve := func(_ int, said map[string]*groupv1.DeliveryReport) { more(said, "s a b c m2 m3") }
	const long = int(longestStarving / time.Second)
	for name, test := range map[string]struct {
		pass func(s *streamed)
		want time.Duration
	}{
		"it got them for long":            {func(s *streamed) { s.pass(long+2, all) }, idlePatience},
		"it got them, but not for long":   {func(s *streamed) { s.pass(long-2, all) }, longestStarving},
		"it misses some now and then":     {func(s *streamed) { s.pass(long/2, all); s.pass(missedMost-2, starve); s.pass(long/2, all) }, idlePatience},
		"it got none for a while":         {func(s *streamed) { s.pass(long-2, all); s.pass(missedMost, starve); s.pass(long-2, all) }, longestStarving},
		"one came when it got none":       {func(s *streamed) { s.pass(1, all); s.pass(long, starve); s.pass(1, all) }, longestStarving},
		"another feeds it since a moment": {func(s *streamed) { s.pass(long-2, all); s.moves("m1"); s.pass(long-2, all) }, longestStarving},
		"another feeds it since long":     {func(s *streamed) { s.pass(2, all); s.moves("m1"); s.pass(long+2, all) }, idlePatience},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := streaming(t, "s>a", "a>b", "a>c", "b>m1", "b>m2", "c>m3")
				s.pass(1, all)
				s.progress.nodes[named("m1")].unfed = 6
				test.pass(s)
				if got := s.progress.starvePatience(s.progress.nodes[named("m1")]); got != test.want {
					t.Errorf("it has %v, want %v", got, test.want)
				}
			})
		})
	}
}

// moves has another agent feed a member.
func (s *streamed) moves(member string) {
	s.t.Helper()
	after, err := s.tree.Elsewhere(named(member).String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.setTree(after, nil, s.treeRead+1)
}

// An agent that passes on no datagrams may pass on bytes: it is as good as any in other deliveries.
func TestIdleInDatagramsAlone(t *testing.T) {
	s := streaming(t, "s>a", "a>b", "b>m1")
	if banned := s.foundIdle(named("b")); banned != idleMemory || s.desk.isIdle("b", "g", time.Now()) {
		t.Errorf("it is out for %v, and idle everywhere: %v", banned, s.desk.isIdle("b", "g", time.Now()))
	}
	bytes := watching(t, "s>a", "a>b", "b>m1")
	if banned := bytes.foundIdle(named("b")); banned != banTime || !bytes.desk.isIdle("b", "g", time.Now()) {
		t.Errorf("without datagrams it is out for %v, and idle everywhere: %v", banned, bytes.desk.isIdle("b", "g", time.Now()))
	}
}

// A node that is found to get nothing is believed again after a while, and at once where nothing could be done: there may be others by then
// that can feed it, and what was in its way may be gone.
func TestWhoGotNoDatagramsIsBelievedAgain(t *testing.T) {
	nothing := func(_ int, said map[string]*groupv1.DeliveryReport) { more(said, "s a") }
	for name, others := range map[string][]string{"there was no other": nil, "another fed them meanwhile": {"a>c"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := streaming(t, append([]string{"s>a", "a>m1", "a>m2"}, others...)...)
				s.pass(16, nothing)
				wantIdle := func(when string, want bool) {
					t.Helper()
					if since := s.idleSince(named("a"), true); since.IsZero() == want {
						t.Errorf("%s it is idle since %v", when, since)
					}
				}
				wantIdle("at first", true)
				r := s.rearrangement()
				r.replace("agent/a", causeIdle, map[string]string{"agent/a": causeIdle})
				if replaced := len(r.history) > 0; replaced != (others != nil) {
					t.Fatalf("it was replaced: %v", replaced)
				}
				s.hold(r.findings)
				wantIdle("when it was found", others == nil)
				s.pass(int(idleMemory/time.Second), nothing)
				wantIdle("after a while", true)
			})
		})
	}
}
