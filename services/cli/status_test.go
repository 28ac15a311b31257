package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/groupcast/groupcast/sdk"
)

// What somebody has to see to goes to standard error, so that the table stays one.
func TestStatusSaysWhatIsWrong(t *testing.T) {
	var table, said bytes.Buffer
	a := &app{stdout: &table, stderr: &said, output: "table"}
	if err := a.showStatus(sdk.Status{Name: "m", ReadOnlyReason: "no room", Absent: []string{"no agent is here", "no gatherer is here"}}); err != nil {
		t.Fatal(err)
	}
	if said.String() != "no room\nno agent is here\nno gatherer is here\n" || strings.Contains(table.String(), "no ") {
		t.Errorf("said %q beside the table:\n%s", said.String(), table.String())
	}
}
