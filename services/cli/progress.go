package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/sdk"
)

// progress shows how a delivery goes on: on a terminal, a screen that is drawn again
// and again; elsewhere, a line for whatever is new.
type progress struct {
	*screen
	tree     bool // draw who feeds whom, not how far each member is
	told     map[string]sdk.ReceiptState
	lastLine time.Time
	before   map[string]sample
}

// sample is what a member had at a time, for its rate.
type sample struct {
	at    time.Time
	bytes uint64
	rate  float64
}

const (
	// linePause is how often it is told, where there is no terminal, how far a delivery is.
	linePause = 5 * time.Second
	// barWidth is how many characters a member's bar has.
	barWidth = 24
	// rateSpan is over how long a rate is measured at least.
	rateSpan = 400 * time.Millisecond
	// stillSpan is after how long without more a member counts as still.
	stillSpan = 3 * time.Second
)

func newProgress(a *app) *progress {
	return &progress{screen: newScreen(a.stderr), told: make(map[string]sdk.ReceiptState), before: make(map[string]sample), lastLine: time.Now()}
}

// show shows a delivery as it is now.
func (p *progress) show(d sdk.Delivery) {
	if p.terminal == nil {
		p.tell(d)
		return
	}
	p.draw(d)
}

// tell writes a line for each member whose state has changed, and one now and then.
func (p *progress) tell(d sdk.Delivery) {
	for _, r := range d.Receipts {
		if p.told[r.Member] != r.State && r.State != sdk.ReceiptReceiving {
			fmt.Fprintf(p.to, "%s: %s (%s)\n", r.Member, receiptState(r), bytesize.Short(r.Bytes))
		}
		p.told[r.Member] = r.State
	}
	if time.Since(p.lastLine) >= linePause {
		p.lastLine = time.Now()
		fmt.Fprintf(p.to, "%s: %s of %s sent, %d of %d members complete\n", shortID(d), bytesize.Short(d.SentBytes), deliverySize(d), d.Complete, d.Members)
	}
}

// draw draws the screen over what was drawn before.
func (p *progress) draw(d sdk.Delivery) {
	_, height := p.size()
	lines := []string{fmt.Sprintf("%s  %s → %s  %s", shortID(d), d.Name, d.Group, deliverySize(d))}
	if p.tree && len(d.Tree) > 0 {
		lines = append(lines, treeLines(d, max(height-3, 1))...)
	} else {
		lines = append(lines, p.members(d, max(height-3, 1))...)
	}
	p.drawLines(lines)
}

// members draws how far each member is.
func (p *progress) members(d sdk.Delivery, fit int) (lines []string) {
	receipts, hidden := undone(d.Receipts, fit)
	for _, r := range receipts {
		lines = append(lines, p.line(d, r))
	}
	if hidden > 0 {
		lines = append(lines, fmt.Sprintf("and %d more: %d of %d complete", hidden, d.Complete, d.Members))
	}
	return lines
}

// undone returns as many receipts as fit, those first that somebody waits for.
func undone(all []sdk.Receipt, fit int) (shown []sdk.Receipt, hidden int) {
	if len(all) <= fit {
		return all, 0
	}
	fit-- // for the line that says so
	for _, want := range []bool{true, false} {
		for _, r := range all {
			if open := r.State == sdk.ReceiptReceiving || r.State == sdk.ReceiptUnknown; open == want && len(shown) < fit {
				shown = append(shown, r)
			}
		}
	}
	return shown, len(all) - len(shown)
}

func (p *progress) line(d sdk.Delivery, r sdk.Receipt) string {
	name := fmt.Sprintf("%-16.32s", r.Member)
	if r.State != sdk.ReceiptReceiving {
		return fmt.Sprintf("%s %-*s %s", name, barWidth+2, receiptState(r), seconds(r.Elapsed))
	}
	bar := strings.Repeat(" ", barWidth)
	share := ""
	if d.Length > 0 {
		done := min(float64(r.Bytes)/float64(d.Length), 1)
		full := int(done * barWidth)
		bar = strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
		share = fmt.Sprintf("%3.0f%%", 100*done)
	}
	return fmt.Sprintf("%s [%s] %s %10s %10s/s", name, bar, share, bytesize.Short(r.Bytes), bytesize.Short(uint64(p.rate(r))))
}

// rate returns at which rate a member receives: between the last two times that it
// was heard to have more.
func (p *progress) rate(r sdk.Receipt) float64 {
	now, before := time.Now(), p.before[r.Member]
	passed := now.Sub(before.at)
	switch {
	case before.at.IsZero() || r.Bytes < before.bytes:
		before = sample{at: now, bytes: r.Bytes}
	case r.Bytes > before.bytes && passed >= rateSpan:
		before = sample{now, r.Bytes, float64(r.Bytes-before.bytes) / passed.Seconds()}
	case passed > stillSpan:
		before.rate = 0
	}
	p.before[r.Member] = before
	return before.rate
}
