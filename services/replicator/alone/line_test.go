package alone

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// Where nobody sees the line, it is said once who falls silent for more than a moment, and what becomes of it.
func TestWhoIsSilentIsSaid(t *testing.T) {
	var said bytes.Buffer
	l := &line{to: &said}
	begun := time.Unix(0, 0)
	member := func(name, at string, silent bool, outcome algo.Outcome) send.Receipt {
		return send.Receipt{Name: name, Address: netip.MustParseAddrPort(at), Silent: silent, Outcome: outcome}
	}
	for _, step := range []struct {
		second    float64
		one, two  bool // silent
		ended     algo.Outcome
		wantAfter string
	}{
		{0, false, false, algo.Running, ""},
		{1, true, true, algo.Running, ""},
		{2, false, true, algo.Running, ""},
		{3.9, true, true, algo.Running, ""},
		{4, true, true, algo.Running, "two (10.0.0.2) is silent\n"},
		{5, false, true, algo.Running, ""},
		{6, false, false, algo.Running, "two (10.0.0.2) is back\n"},
		{7, false, true, algo.Running, ""},
		{10, false, true, algo.Running, "two (10.0.0.2) is silent\n"},
		{37, false, true, algo.Unknown, "two (10.0.0.2) is given up\n"},
		{38, false, true, algo.Unknown, ""},
		{40, false, true, algo.Running, ""},
		{44, false, true, algo.Running, "two (10.0.0.2) is silent\n"},
		{45, false, false, algo.Failed, ""}, // the table says why
	} {
		said.Reset()
		l.absences([]send.Receipt{
			member("one", "10.0.0.1:7", step.one, algo.Running), member("two", "10.0.0.2:7", step.two, step.ended),
		}, begun.Add(time.Duration(step.second*float64(time.Second))))
		if said.String() != step.wantAfter {
			t.Errorf("after %g s: %q, want %q", step.second, said.String(), step.wantAfter)
		}
	}
}
