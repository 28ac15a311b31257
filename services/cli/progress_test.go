package cli

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/groupcast/groupcast/sdk"
)

func TestRateIsOfWhatWasHeard(t *testing.T) {
	p := newProgress(&app{stderr: new(bytes.Buffer)})
	r := part{name: "node-1", bytes: 1000}
	if got := p.rate(r); got != 0 {
		t.Errorf("the first rate is %v", got)
	}
	p.before["node-1"] = sample{at: time.Now().Add(-time.Second), bytes: 1000}
	r.bytes = 3000
	if got := p.rate(r); got < 1900 || got > 2000 {
		t.Errorf("2000 bytes in a second are %v per second", got)
	}
	if got := p.rate(r); got < 1900 {
		t.Errorf("without news the rate is %v, want what it was", got)
	}
	p.before["node-1"] = sample{at: time.Now().Add(-time.Minute), bytes: 3000, rate: 2000}
	if got := p.rate(r); got != 0 {
		t.Errorf("after a minute without news the rate is %v", got)
	}
}

// A manager that begins to lead while no other did has yet to hear how far everybody is. What was so before is not told as if it were so now.
func TestWhatIsOldIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := new(bytes.Buffer)
		p := newProgress(&app{stderr: out})
		show := func(after time.Duration, sent uint64) (said string) {
			time.Sleep(after)
			out.Reset()
			p.show(sdk.Delivery{ID: "0123456789", SentBytes: sent << 20, Length: 382 << 20, Sealed: true})
			return out.String()
		}
		show(time.Second, 100)
		if said := show(linePause, 140); !strings.Contains(said, " 140 MiB of 382 MiB sent") {
			t.Errorf("it says %q", said)
		}
		show(time.Second, 142)
		if said := show(20*time.Second, 0); said != "" {
			t.Errorf("after a gap it says %q", said)
		}
		show(time.Second, 370)
		if said := show(linePause-time.Second, 376); !strings.Contains(said, " 376 MiB of 382 MiB sent") {
			t.Errorf("then it says %q", said)
		}
		if said := show(20*time.Second, 380); !strings.Contains(said, " 380 MiB of 382 MiB sent") {
			t.Errorf("it says %q of what is new after a gap", said)
		}
	})
}

func TestOpenPartsAreShownFirst(t *testing.T) {
	parts := []part{{name: "a"}, {name: "b", open: true}, {name: "c"}, {name: "d", open: true}}
	shown, hidden := undone(parts, 3)
	if len(shown) != 2 || shown[0].name != "b" || shown[1].name != "d" || hidden != 2 {
		t.Errorf("shown %v, hidden %d", shown, hidden)
	}
}

// A line fits, however narrow the terminal is, and always says how much is there.
func TestLinesFit(t *testing.T) {
	p := newProgress(&app{stderr: io.Discard})
	one := part{name: "a-member-with-a-long-name", moving: true, bytes: 100 << 20}
	for _, width := range []int{40, 50, 80, 200} {
		line := p.line(standing{length: 200 << 20}, one, width)
		if got := utf8.RuneCountInString(line); got > width || !strings.Contains(line, " 50% ") || !strings.Contains(line, "100 MiB") {
			t.Errorf("%d characters of %d: %q", got, width, line)
		}
	}
}

// A part's line has no more columns than a screen draws of it, which leaves out the last one.
func TestPartsFitAScreen(t *testing.T) {
	p := newProgress(&app{stderr: io.Discard})
	s := standing{length: 200 << 20, parts: []part{{name: "node-1", moving: true, bytes: 100 << 20}}}
	for _, width := range []int{40, 44, 50, 80, 200} {
		for _, line := range p.partLines(s, width, 10) {
			if drawn := cutColumns(line, width-1); drawn != line || !strings.HasSuffix(line, "/s") {
				t.Errorf("of %d columns: %q is drawn as %q", width, line, drawn)
			}
		}
	}
}

// Without a terminal, each change is a line, and nothing is told twice.
func TestLinesWithoutTerminal(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&app{stderr: &out})
	d := sdk.Delivery{ID: "0123456789", Receipts: []sdk.Receipt{{Member: "node-1", State: sdk.ReceiptReceiving}}}
	p.show(d)
	d.Receipts[0].State, d.Receipts[0].Reason = sdk.ReceiptFailed, "slow"
	p.show(d)
	p.show(d)
	if got := out.String(); strings.Count(got, "node-1: FAILED(slow)") != 1 || strings.Contains(got, "\x1b") {
		t.Errorf("it says %q", got)
	}
}

// A manager that begins to lead knows of no progress until it is told again. What is shown meanwhile does not fall back, and the delivery
// that was given is not changed.
func TestProgressDoesNotFallBack(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&app{stderr: &out})
	told := func(sent, had uint64) sdk.Delivery {
		return sdk.Delivery{
			ID: "0123456789", Length: 200, SentBytes: sent, Members: 1,
			Receipts: []sdk.Receipt{{Member: "n1", State: sdk.ReceiptReceiving, Bytes: had}},
			Tree:     []sdk.TreeNode{{ID: "member/n1", Bytes: had}},
		}
	}
	p.show(told(100, 90))
	forgotten := told(0, 0)
	p.lastLine = time.Now().Add(-linePause)
	if p.show(forgotten); forgotten.Receipts[0].Bytes != 0 || forgotten.Tree[0].Bytes != 0 {
		t.Errorf("what was shown became %+v", forgotten)
	}
	if want := "01234567: 100 B of 200 B sent, 0 of 1 members complete; waiting for n1\n"; out.String() != want {
		t.Errorf("it says %q, want %q", out.String(), want)
	}
	if d := p.seen(forgotten); d.Receipts[0].Bytes != 90 || !strings.Contains(treeLines(d, 80, 5)[0], " 45% ") {
		t.Errorf("after that it has %+v", d)
	}
	if d := p.seen(told(110, 95)); d.SentBytes != 110 || d.Receipts[0].Bytes != 95 || d.Tree[0].Bytes != 95 {
		t.Errorf("when it has more, that is %+v", d)
	}
}

// If nobody knows how much a member has, no number is shown, unless one was seen before.
func TestUnknownBytesAreNoNumber(t *testing.T) {
	a, out, shown := concluding()
	told := a.stderr.(*bytes.Buffer)
	seen := sdk.Delivery{ID: "0123456789", Receipts: []sdk.Receipt{{Member: "n1", State: sdk.ReceiptReceiving, Bytes: 90}, {Member: "n2", State: sdk.ReceiptReceiving}}}
	shown.show(seen)
	d := sdk.Delivery{ID: "0123456789", State: sdk.DeliveryFailed, Receipts: []sdk.Receipt{
		{Member: "n1", State: sdk.ReceiptFailed, Reason: "canceled", BytesUnknown: true},
		{Member: "n2", State: sdk.ReceiptFailed, Reason: "canceled", BytesUnknown: true},
	}}
	shown.show(d)
	_ = a.conclude(t.Context(), nil, d, shown) // no member has it
	if want := "n1: FAILED(canceled) (90 B)\nn2: FAILED(canceled)\n"; !strings.HasPrefix(told.String(), want) {
		t.Errorf("it says %q, want %q", told, want)
	}
	if want := regexp.MustCompile(`n1 +FAILED\(canceled\) +90 B .*\nn2 +FAILED\(canceled\) +- `); !want.MatchString(out.String()) {
		t.Errorf("the table is\n%swant %s", out, want)
	}
}
