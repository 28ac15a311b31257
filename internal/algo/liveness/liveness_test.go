package liveness_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/algo/liveness"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestSilentAfterPatience(t *testing.T) {
	table := liveness.NewTable[string](10 * time.Second)
	table.Heard("a", epoch)
	table.Heard("b", epoch.Add(time.Second))
	table.Heard("a", epoch.Add(2*time.Second))
	for _, c := range []struct {
		after time.Duration
		want  []string
	}{
		{10 * time.Second, nil},
		{11*time.Second - 1, nil},
		{11 * time.Second, []string{"b"}},
		{11 * time.Second, nil}, // reported once
		{12 * time.Second, []string{"a"}},
	} {
		if got := table.Silent(epoch.Add(c.after)); !slices.Equal(got, c.want) {
			t.Errorf("silent after %v: %v, want %v", c.after, got, c.want)
		}
	}
}

// The table reports the same as an oracle that looks at every peer each time.
func TestTableAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const patience = 10 * time.Second
		table, oracle, now := liveness.NewTable[int](patience), map[int]time.Time{}, epoch
		t.Repeat(map[string]func(*rapid.T){
			"hear": func(t *rapid.T) {
				key := rapid.IntRange(0, 9).Draw(t, "key")
				table.Heard(key, now)
				oracle[key] = now
			},
			"forget": func(t *rapid.T) {
				key := rapid.IntRange(0, 9).Draw(t, "key")
				table.Forget(key)
				delete(oracle, key)
			},
			"advance": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 6000).Draw(t, "milliseconds")) * time.Millisecond)
			},
			"silent": func(t *rapid.T) {
				var want []int
				for key, heard := range oracle {
					if now.Sub(heard) >= patience {
						want = append(want, key)
						delete(oracle, key)
					}
				}
				got := table.Silent(now)
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Fatalf("silent: %v, want %v", got, want)
				}
			},
			"": func(t *rapid.T) {
				if table.Len() != len(oracle) {
					t.Fatalf("%d peers, want %d", table.Len(), len(oracle))
				}
			},
		})
	})
}

// Before the owner first asked, too, nobody could be heard.
func TestBeginningIsNobodysSilence(t *testing.T) {
	table := liveness.NewTable[string](10*time.Second).AskedWithin(time.Second, epoch)
	table.Heard("a", epoch)
	for second := 8; second < 17; second++ { // 7 of these 8 seconds are the owner's fault
		if silent := table.Silent(epoch.Add(time.Duration(second) * time.Second)); len(silent) > 0 {
			t.Fatalf("%v are silent after %d s", silent, second)
		}
	}
	if silent := table.Silent(epoch.Add(17 * time.Second)); !slices.Equal(silent, []string{"a"}) {
		t.Errorf("%v are silent after 10 s of their own, want a", silent)
	}
}

// An owner that stood still has heard nobody, and does not blame the peers for that time; the rest of their silence counts.
func TestStandingStillIsNobodysSilence(t *testing.T) {
	table := liveness.NewTable[string](10*time.Second).AskedWithin(time.Second, epoch)
	at := func(seconds float64) time.Time { return epoch.Add(time.Duration(seconds * float64(time.Second))) }
	table.Heard("a", at(0))
	table.Silent(at(0))
	for second := 1.0; second <= 4; second++ {
		table.Silent(at(second))
	}
	if silent := table.Silent(at(30)); len(silent) > 0 { // 25 of these 26 seconds are the owner's fault
		t.Errorf("%v are silent after the owner stood still", silent)
	}
	table.Heard("b", at(30))
	for second := 31.0; second < 35; second++ { // a's own silence until 30 is 5 seconds
		if silent := table.Silent(at(second)); len(silent) > 0 {
			t.Fatalf("%v are silent after %v s", silent, second)
		}
	}
	if silent := table.Silent(at(35)); !slices.Equal(silent, []string{"a"}) {
		t.Errorf("%v are silent after 10 s of their own, want a", silent)
	}
	for second := 36.0; second < 40; second++ {
		table.Silent(at(second))
	}
	if silent := table.Silent(at(40)); !slices.Equal(silent, []string{"b"}) {
		t.Errorf("%v are silent, want b", silent)
	}
}

// An owner that is busy with the silent peers hears the others meanwhile: their silence counts.
func TestBusyIsNotStandingStill(t *testing.T) {
	table := liveness.NewTable[string](10*time.Second).AskedWithin(time.Second, epoch)
	table.Heard("a", epoch)
	for second := 1; second < 10; second++ {
		table.Awake(epoch.Add(time.Duration(second) * time.Second))
	}
	if silent := table.Silent(epoch.Add(10 * time.Second)); !slices.Equal(silent, []string{"a"}) {
		t.Errorf("%v are silent after 10 s, want a", silent)
	}
}
