package cli

import (
	"testing"

	"github.com/groupcast/groupcast/sdk"
)

// A member that relays is an agent of the zone that it is a member of.
func TestRelayIsInItsMembersZone(t *testing.T) {
	for _, test := range []struct {
		labels map[string]string
		want   string
	}{
		{nil, ""},
		{map[string]string{"zone": "eu-1"}, "eu-1"},
		{map[string]string{"topology.kubernetes.io/zone": "eu-2"}, "eu-2"},
		{map[string]string{"zone": "eu-1", "topology.kubernetes.io/zone": "eu-2"}, "eu-1"},
	} {
		config := new(relay).config(sdk.Config{}, nil, &pull{join: sdk.Join{Labels: test.labels}}, t.TempDir())
		if config.Zone != test.want {
			t.Errorf("with the labels %v it is in %q, want %q", test.labels, config.Zone, test.want)
		}
	}
}
