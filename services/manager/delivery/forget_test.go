package delivery

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
)

// Of who joined a stream late and has gone nothing is left, however many do; what an object's members said is kept.
func TestWhoHasGoneIsForgotten(t *testing.T) {
	stream := fileSpec()
	stream.LengthUnknown = true
	for name, test := range map[string]struct {
		spec *groupv1.DeliverySpec
		want []string
	}{"a stream": {stream, []string{"a", "m1", "m2", "m4", "s"}}, "a file": {fileSpec(), []string{"a", "m1", "m2", "m3", "m4", "s"}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				delivery := running(test.spec)
				delivery.Members = []*managerv1.Participant{{Name: "m2"}} // it was there at the start
				w := watching(t, "s>a", "a>m1")
				w.report(map[string]uint64{"s": 1})
				for _, gone := range []string{"m2", "m3"} {
					w.got(gone, 1, 0)
				}
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
			})
		})
	}
}
