package liveness_test

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/liveness"
)

func TestIsolation(t *testing.T) {
	type step struct {
		after                time.Duration
		missed, doubted, all int
		cutOff               bool
	}
	for name, steps := range map[string][]step{
		"one of one, and two of two, may well be gone": {{0, 1, 0, 1, false}, {time.Second, 2, 0, 2, false}},
		"half may be a switch of theirs":               {{0, 4, 0, 8, false}, {time.Second, 5, 0, 8, true}},
		"who is back waits for the others": {
			{0, 100, 0, 100, true}, {30 * time.Second, 100, 0, 100, true}, {31 * time.Second, 40, 0, 100, true}, {39 * time.Second, 3, 0, 100, true}, {41 * time.Second, 1, 0, 100, false},
		},
		"most whose streams have ended may well be gone": {{0, 0, 99, 100, false}, {time.Second, 2, 97, 100, false}},
		"nobody at all is heard":                         {{0, 0, 4, 4, false}, {time.Second, 0, 5, 5, true}, {2 * time.Second, 1, 4, 5, true}, {121 * time.Second, 0, 5, 5, false}},
		"after two minutes they are gone": {
			{0, 100, 0, 100, true}, {119 * time.Second, 100, 0, 100, true}, {2 * time.Minute, 100, 0, 100, false}, {125 * time.Second, 0, 0, 1, false},
		},
		"each time it has two minutes": {
			{0, 3, 0, 3, true}, {time.Minute, 3, 0, 3, true}, {61 * time.Second, 0, 0, 3, true}, {2 * time.Minute, 3, 0, 3, true}, {239 * time.Second, 3, 0, 3, true}, {240 * time.Second, 3, 0, 3, false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var isolation liveness.Isolation
			for _, s := range steps {
				if got := isolation.Step(s.missed, s.doubted, s.all, epoch.Add(s.after)); got != s.cutOff {
					t.Errorf("after %v without %d and %d of %d: %v, want %v", s.after, s.missed, s.doubted, s.all, got, s.cutOff)
				}
			}
		})
	}
}

// A deaf owner finds nobody silent, and when it hears again goes on where it was. Peers that are only presumed, or
// doubted, are not missed.
func TestDeafnessIsNobodysSilence(t *testing.T) {
	table := liveness.NewTable[string](10*time.Second).AskedWithin(time.Second, epoch)
	at := func(seconds float64) time.Time { return epoch.Add(time.Duration(seconds * float64(time.Second))) }
	table.Presume("presumed", at(0))
	table.Heard("heard", at(0))
	table.Heard("doubted", at(0))
	table.Doubt("doubted")
	for second := 1.0; second <= 5; second++ {
		table.Awake(at(second))
	}
	if missed, doubted := table.Missed(5*time.Second, at(5)); missed != 1 || doubted != 1 {
		t.Errorf("%d are missed after 5 s, and %d are doubted, want the one that was heard, and the one that is doubted", missed, doubted)
	}
	table.Deaf(true, at(5))
	for second := 6.0; second <= 100; second++ {
		if silent := table.Silent(at(second)); len(silent) > 0 {
			t.Fatalf("%v are silent after %v s, of which all but 5 were the owner's", silent, second)
		}
	}
	table.Deaf(false, at(100))
	for second := 101.0; second < 105; second++ {
		if silent := table.Silent(at(second)); len(silent) > 0 {
			t.Fatalf("%v are silent after %v s", silent, second)
		}
	}
	if silent := table.Silent(at(105)); len(silent) != 3 {
		t.Errorf("%v are silent 5 s after the owner heard again, want all", silent)
	}
}
