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
		{11 * time.Second, nil}, // told once
		{12 * time.Second, []string{"a"}},
	} {
		if got := table.Silent(epoch.Add(c.after)); !slices.Equal(got, c.want) {
			t.Errorf("silent after %v: %v, want %v", c.after, got, c.want)
		}
	}
}

// The table tells the same as one that looks at every peer each time.
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
