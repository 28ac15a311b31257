package alone

import (
	"bytes"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// Where nobody sees the line, it is said what comes from which sender, and every 10 s how far it is.
func TestProgressIsSaidNowAndThen(t *testing.T) {
	var said bytes.Buffer
	l := &line{to: &said}
	l.begins(netip.MustParseAddrPort("10.0.0.1:7"), object.Info{Name: "disk\x1b.img", Length: 30 << 20})
	begun := time.Unix(0, 0)
	for second := range 25 {
		l.show(begun.Add(time.Duration(second)*time.Second), "%d MiB", second)
	}
	if want := "receiving disk\\x1b.img, 30 MiB, from 10.0.0.1\n10 MiB\n20 MiB\n"; said.String() != want {
		t.Errorf("%q, want %q", said.String(), want)
	}
}

// Of a receiver that was given up it is said what may be the matter; one that has it, or has said why not, is left alone.
func TestSilenceIsExplained(t *testing.T) {
	var out bytes.Buffer
	members := []send.Receipt{{Name: "one", Outcome: algo.Unknown}, {Name: "two", Outcome: algo.Complete}, {Name: "three", Outcome: algo.Failed, Reason: "left"}}
	explain(members)
	(&app{stdout: &out}).table(members)
	for _, want := range []string{`one .* UNKNOWN .* silent: .*IGMP snooping`, `two .* COMPLETE +0 B +0.00% *\n`, `three .* FAILED .* left\n`} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// Where nobody sees the line, it is said once which receiver falls silent for more than a moment, and what becomes of it.
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

// A receiver that was started again is back: it speaks from another port. Of one that is gone nothing more is said.
func TestWhoWasStartedAgainIsBack(t *testing.T) {
	var said bytes.Buffer
	l := &line{to: &said}
	begun := time.Unix(0, 0)
	member := func(name, at string, silent bool) send.Receipt {
		return send.Receipt{Name: name, Address: netip.MustParseAddrPort(at), Silent: silent, Outcome: algo.Running}
	}
	l.absences([]send.Receipt{member("one", "10.0.0.1:7", true), member("two", "10.0.0.2:7", true)}, begun)
	l.absences([]send.Receipt{member("one", "10.0.0.1:7", true), member("two", "10.0.0.2:7", true)}, begun.Add(silentFor))
	l.absences([]send.Receipt{member("one", "10.0.0.1:8", false)}, begun.Add(2*silentFor))
	if want := "one (10.0.0.1) is silent\ntwo (10.0.0.2) is silent\none (10.0.0.1) is back\n"; said.String() != want {
		t.Errorf("%q, want %q", said.String(), want)
	}
	if len(l.away) != 0 {
		t.Errorf("remembered: %v", l.away)
	}
}

// All have no more than one that is silent and may come back. Where nobody goes on, nothing is said of all.
func TestWhatAllHave(t *testing.T) {
	member := func(landed uint64, silent bool, outcome algo.Outcome) send.Receipt {
		return send.Receipt{Landed: landed << 20, Silent: silent, Outcome: outcome}
	}
	for _, tt := range []struct {
		members []send.Receipt
		want    string
	}{
		{[]send.Receipt{member(20, false, algo.Running), member(25, false, algo.Running)}, "sent 30 MiB of 90 MiB, all have 20 MiB; 0 of 2 complete, 0 silent\n"},
		{[]send.Receipt{member(10, true, algo.Running)}, "sent 30 MiB of 90 MiB, all have 10 MiB; 0 of 1 complete, 1 silent\n"},
		{[]send.Receipt{member(10, true, algo.Running), member(20, false, algo.Running), member(90, false, algo.Complete)}, "sent 30 MiB of 90 MiB, all have 10 MiB; 1 of 3 complete, 1 silent\n"},
		{[]send.Receipt{member(10, true, algo.Unknown), member(20, false, algo.Running)}, "sent 30 MiB of 90 MiB, all have 20 MiB; 0 of 2 complete, 1 silent\n"},
		{[]send.Receipt{member(10, true, algo.Unknown), member(20, false, algo.Failed)}, "sent 30 MiB of 90 MiB; 0 of 2 complete, 1 silent\n"},
	} {
		var said bytes.Buffer
		l := &line{to: &said, said: time.Unix(0, 0)}
		l.sending(send.Progress{Sent: 30 << 20, Length: 90 << 20, Members: tt.members})
		if said.String() != tt.want {
			t.Errorf("%q, want %q", said.String(), tt.want)
		}
	}
}

// What is longer than a line is cut: it would begin another each time.
func TestLineFits(t *testing.T) {
	for most, want := range map[int]string{79: "sent 29 MiB of 300 MiB", 22: "sent 29 MiB of 300 MiB", 10: "sent 29 M…", 0: "…"} {
		if got := cut("sent 29 MiB of 300 MiB", most); got != want {
			t.Errorf("at %d: %q, want %q", most, got, want)
		}
	}
}

// Who waits for long is told what may be in the way; who does not is not.
func TestWhatMayBeInTheWay(t *testing.T) {
	for name, waits := range map[string]time.Duration{"for long": 11 * time.Second, "not for long": 9 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said bytes.Buffer
				l := &line{to: &said}
				end := l.waits("a sender", "eth0")
				time.Sleep(waits)
				end()
				time.Sleep(time.Hour)
				synctest.Wait()
				if strings.Contains(said.String(), "in the way") != (waits > waitsLong) {
					t.Errorf("after %v it has said\n%s", waits, said.String())
				}
			})
		})
	}
}
