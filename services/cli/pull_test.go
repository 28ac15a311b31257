package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/groupcast/groupcast/sdk"
)

// Who takes streams alone says once that it refuses what its group keeps, and each time what somebody waits for.
func TestKeptObjectsAreRefusedInOneLine(t *testing.T) {
	var said bytes.Buffer
	a, p := &app{stdout: &said, stderr: &said}, &pull{stdout: true}
	refused := &sdk.DeliveryError{Reason: "refused", Detail: "it has no directory"}
	for _, one := range []sdk.Incoming{
		{Name: "old", Kind: sdk.File, Late: true},
		{Name: "older", Kind: sdk.Directory, Late: true},
		{Name: "new", Kind: sdk.File},
		{Name: "newer", Kind: sdk.File},
		{Name: "live", Kind: sdk.Stream, Late: true},
	} {
		if err := a.arrived(p, sdk.Arrived{Incoming: one, Err: refused}); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	wants := []string{"what the group keeps", "new from", "newer from", "live from"}
	if len(lines) != len(wants) {
		t.Fatalf("said:\n%s", &said)
	}
	for i, want := range wants {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d is %q, want %q", i, lines[i], want)
		}
	}
}
