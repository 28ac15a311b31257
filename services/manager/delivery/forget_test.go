package delivery

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
)

// Nothing is left of members that joined a stream late and have gone, however many do. What the members of an object said is kept.
func TestWhoHasGoneIsForgotten(t *testing.T) {
	stream := fileSpec()
	stream.LengthUnknown = true
	for name, test := range map[string]struct {
		spec *groupv1.DeliverySpec
		want []string
		left string
	}{
		"a stream": {stream, []string{"a", "m1", "m2", "m4", "s"}, "3 2 0 0"},
		"a file":   {fileSpec(), []string{"a", "b", "m1", "m2", "m3", "m4", "s"}, "5 4 2 2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				delivery := running(test.spec)
				delivery.Members = []*managerv1.Participant{{Name: "m2"}} // it was there at the start
				w := watching(t, "s>a", "a>m1")
				w.report(map[string]uint64{"s": 1})
				p := w.progress
				for _, gone := range []string{"m2", "m3"} {
					w.got(gone, 1, 0)
				}
				for _, gone := range []string{"m3", "m5"} { // only its feeder has told of m5, and agent b is no more
					p.acked[gone], p.unknown[gone] = 1, absence{found: time.Now()}
					p.links[link{named("b"), named(gone)}] = &carriage{bytes: 1, last: time.Now()}
					p.doubted[link{named("b"), named(gone)}] = doubt{1, time.Now().Add(idleMemory)}
				}
				p.links[link{named("s"), named("b")}] = &carriage{bytes: 1, last: time.Now()} // it counts
				w.got("b", 1, 0)
				time.Sleep(goneMemory)
				w.got("m4", 1, 0) // it has just gone
				w.forgetGone(delivery, time.Now())
				known := slices.Collect(maps.Keys(w.progress.nodes))
				var names []string
				for _, id := range known {
					names = append(names, id.Name)
				}
				if slices.Sort(names); !slices.Equal(names, test.want) {
					t.Errorf("it is known what %v said, want %v", names, test.want)
				}
				left := fmt.Sprint(len(p.links), len(p.acked), len(p.unknown), len(p.doubted))
				if want := test.left; left != want {
					t.Errorf("links, acknowledgements, unknown and doubted are %s, want %s", left, want)
				}
			})
		})
	}
}

// How many directives a cluster was sent is known as long as somebody of it is in the tree: members come with ever new zones.
func TestClustersOfNobodyAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching(t, "s>a@x", "a>m1@x")
		w.told["x"], w.told["y"] = 3, 1
		time.Sleep(goneMemory)
		w.forgetGone(running(fileSpec()), time.Now())
		if len(w.told) != 1 || w.told["x"] != 3 {
			t.Errorf("it is known of %v, want the 3 of x", w.told)
		}
	})
}

// Agents that are gone are forgotten; those that are members have ever new names. An agent that may come back is not.
func TestAgentsThatAreGoneAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.AttachAgent("m7.g").Close()
		d.AttachAgent("here")
		d.forgetAgents(time.Now())
		if len(d.agents) != 2 {
			t.Errorf("%d agents are known, want both", len(d.agents))
		}
		time.Sleep(goneMemory)
		d.forgetAgents(time.Now())
		if len(d.agents) != 1 || d.agents["here"] == nil {
			t.Errorf("%d agents are known, want the one that is attached", len(d.agents))
		}
	})
}
