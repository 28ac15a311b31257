package daemon_test

import (
	"maps"
	"testing"

	"github.com/groupcast/groupcast/internal/daemon"
)

func TestLabelsAreParsed(t *testing.T) {
	got, err := daemon.ParseLabels([]string{"site=a", "rack=", "note=x=y"})
	if want := map[string]string{"site": "a", "rack": "", "note": "x=y"}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for _, wrong := range []string{"site", "=a", ""} {
		if got, err := daemon.ParseLabels([]string{"rack=1", wrong}); err == nil {
			t.Errorf("%q is taken: %v", wrong, got)
		}
	}
}
