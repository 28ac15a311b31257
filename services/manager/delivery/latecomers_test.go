package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/internal/algo/reshape"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/view"
)

// streamTo is a running stream that began with these members.
func streamTo(members ...string) view.Delivery {
	delivery := running(&groupv1.DeliverySpec{Kind: groupv1.DeliveryKind_DELIVERY_KIND_STREAM, LengthUnknown: true})
	for _, name := range members {
		delivery.Members = append(delivery.Members, &managerv1.Participant{Name: name})
	}
	return delivery
}

// A sender keeps nothing of a stream for a member that came late. So that one goes to a nearer agent only if this has what the member lacks;
// others go at once.
func TestWhoCameLateStaysWhereItsStreamIs(t *testing.T) {
	file := fileSpec()
	file.Length = 10_000 * megabyte
	for name, test := range map[string]struct {
		delivery view.Delivery
		nearer   *groupv1.DeliveryReport
		ago      time.Duration // when the nearer agent said so
		moves    bool
	}{
		"it was there at the start":         {streamTo("m1"), &groupv1.DeliveryReport{Bytes: 100}, 0, true},
		"the nearer agent holds nothing":    {streamTo("m2"), &groupv1.DeliveryReport{Bytes: 100}, 0, false},
		"the nearer agent holds too little": {streamTo("m2"), &groupv1.DeliveryReport{Bytes: 100, HeldBytes: 49}, 0, false},
		"the nearer agent holds enough":     {streamTo("m2"), &groupv1.DeliveryReport{Bytes: 100, HeldBytes: 50}, 0, true},
		"the nearer agent is not as far":    {streamTo("m2"), &groupv1.DeliveryReport{Bytes: 49, HeldBytes: 49}, 0, false},
		"the nearer agent has said nothing": {streamTo("m2"), nil, 0, false},
		"it is a file":                      {running(file), &groupv1.DeliveryReport{Bytes: 100}, 0, true},
		"what the nearer agent said is old": {streamTo("m2"), &groupv1.DeliveryReport{Bytes: 100, HeldBytes: 50}, 2 * heardPatience, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := strayed(t)
				say := func() {
					r.progress.nodes[named("m1")] = &nodeProgress{report: &groupv1.DeliveryReport{Bytes: 50}, at: time.Now()}
					r.progress.nodes[named("a")] = &nodeProgress{report: test.nearer, at: time.Now().Add(-test.ago)}
				}
				if moved := r.seekIn(test.delivery, time.Minute, say); moved > 0 != test.moves {
					t.Errorf("it moved after %v", moved)
				}
			})
		})
	}
}

// An agent that lags stays where it is as long as a member that came late would lose the stream by that, itself or below an agent that moves.
func TestNobodyIsLoweredAtTheCostOfAStream(t *testing.T) {
	for name, test := range map[string]struct {
		delivery view.Delivery
		by       string // who feeds the member
		held     uint64
		moves    bool
	}{
		"the member was there at the start":         {streamTo("m1"), "b", 0, true},
		"the member came late":                      {streamTo("m2"), "b", 0, false},
		"the member came late, below another agent": {streamTo("m2"), "d", 0, false},
		"others hold what the member lacks":         {streamTo("m2"), "b", 1000 * megabyte, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := watching(t, "s>a", "a>b", "a>c", "b>d", test.by+">m1")
				r := &rearrangement{keeper: w.keeper, tree: w.tree}
				for seconds := uint64(10); seconds < 15; seconds++ {
					for name, rate := range map[string]uint64{"a": 10 * megabyte, "b": megabyte, "c": 10 * megabyte, "d": megabyte, "m1": megabyte} {
						w.got(name, rate*seconds, rate)
					}
					for _, name := range []string{"a", "b", "c", "d"} {
						w.progress.nodes[named(name)].report.HeldBytes = test.held
					}
					r.now, r.history = time.Now(), nil
					r.lowerSlow(test.delivery)
					time.Sleep(time.Second)
				}
				if moved := r.feeder("b") != named("a").String(); moved != test.moves {
					t.Errorf("the agent that lags has moved: %t\n%v", moved, r.tree)
				}
			})
		})
	}
}

// A change of places that somebody would lose a stream by if it ended now is not forgotten: it ends as soon as nobody would.
func TestChangeOfPlacesEndsOnceNobodyLosesAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching(t, "s>b", "b>a", "a>m1", "b>m2")
		r := &rearrangement{keeper: w.keeper, tree: w.tree}
		w.lag.Moved(reshape.Move{Why: reshape.Tries, Node: named("b").String(), Parent: named("a").String(), Rate: megabyte}, w.tree, time.Now())
		var held uint64
		after := func(seconds int) (ended bool) {
			for range seconds {
				for _, name := range w.tree.Names() {
					id := placement.ParseID(name)
					w.got(id.Name, 10*megabyte, megabyte)
					w.progress.nodes[id].report.HeldBytes = held
				}
				w.progress.nodes[named("s")].report.Bytes++ // more than the agents have
				r.now, r.history = time.Now(), nil
				r.lowerSlow(streamTo())
				time.Sleep(time.Second)
			}
			return r.feeder("b") == named("a").String()
		}
		if after(20) {
			t.Fatal("they have changed back, at the cost of the stream")
		}
		if held = 20 * megabyte; !after(20) {
			t.Errorf("they have not changed back, although nobody would lose the stream\n%v", r.tree)
		}
	})
}

// An agent that is not in the tree holds nothing, whatever it said when it was.
func TestWhatAnAgentSaidOutsideOfTheTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := strayed(t)
		said := &nodeProgress{report: &groupv1.DeliveryReport{Bytes: 100, HeldBytes: 100}, at: time.Now()}
		for _, name := range []string{"a", "c", "m1"} {
			r.progress.nodes[named(name)] = said
		}
		for feeder, want := range map[string]bool{"a": true, "c": false} {
			if holds := r.holds(named(feeder), named("m1")); holds != want {
				t.Errorf("%s holds what it lacks: %t", feeder, holds)
			}
		}
	})
}
