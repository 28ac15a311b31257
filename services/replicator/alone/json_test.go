package alone

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// A program reads what each receiver had before and has now, in the words of the managers.
func TestReceiptsAsJSON(t *testing.T) {
	var out bytes.Buffer
	members := []send.Receipt{{Name: "one", Address: netip.MustParseAddrPort("10.0.0.1:7"), Outcome: algo.Complete, Landed: 90, Resumed: 40}}
	if err := (&app{stdout: &out}).asJSON(send.Result{Members: members}, 1, "", ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"name": "one"`, `"node": "10.0.0.1"`, `"bytes": "90"`, `"resumedBytes": "40"`, `"completeCount": 1`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	}
}
