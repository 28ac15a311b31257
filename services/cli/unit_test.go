package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// A member that systemd stops has done what it was told: its unit has not failed.
func TestUnitOfAMemberTakesInterruptsForSuccess(t *testing.T) {
	unit, err := os.ReadFile("../../systemd/groupcast-pull@.service")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("\nSuccessExitStatus=%d\n", exitInterrupted); !strings.Contains(string(unit), want) {
		t.Errorf("the unit does not have %q", strings.TrimSpace(want))
	}
}
