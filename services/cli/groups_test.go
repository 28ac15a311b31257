package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
)

// A wide table has all of a group's policy: who changes it can read it back.
func TestPolicyIsReadInATable(t *testing.T) {
	for flags, tt := range map[string]struct {
		policy sdk.Policy
		cells  map[string]string
	}{
		"none":             {sdk.Policy{}, map[string]string{"SLOW-WHEN": "", "CONGESTION": "", "LIMITS": ""}},
		"--slow-floor":     {sdk.Policy{SlowMember: sdk.SlowMember{FloorBytesPerSecond: 1 << 20}}, map[string]string{"SLOW-WHEN": "below 1.0 MiB/s"}},
		"--slow-lag-bytes": {sdk.Policy{SlowMember: sdk.SlowMember{LagBytes: 64 << 20}}, map[string]string{"SLOW-WHEN": "64 MiB behind"}},
		"--slow-lag-time":  {sdk.Policy{SlowMember: sdk.SlowMember{LagTime: 30 * time.Second}}, map[string]string{"SLOW-WHEN": "30s behind"}},
		"both lags":        {sdk.Policy{SlowMember: sdk.SlowMember{LagBytes: 64 << 20, LagTime: 30 * time.Second}}, map[string]string{"SLOW-WHEN": "64 MiB or 30s behind"}},
		"--congestion":     {sdk.Policy{Congestion: "bbr"}, map[string]string{"CONGESTION": "bbr"}},
		"all limits": {
			sdk.Policy{Limits: sdk.Limits{MaxMembers: 3, MaxDeliveries: 2, MaxObjectBytes: 1 << 60, MaxBytesPerSecond: 100_000_000}},
			map[string]string{"LIMITS": "3 members, 2 deliveries, objects of 1.0 EiB, 95 MiB/s"},
		},
	} {
		t.Run(strings.TrimPrefix(flags, "--"), func(t *testing.T) {
			cells := make(map[string]string)
			for _, column := range groupColumns {
				cells[column.title] = column.cell(sdk.Group{Policy: tt.policy})
			}
			for title, want := range tt.cells {
				if got, is := cells[title]; !is || got != want {
					t.Errorf("%s: %q, want %q", title, got, want)
				}
			}
		})
	}
}
