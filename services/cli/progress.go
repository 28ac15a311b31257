package cli

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/printable"
	"github.com/groupcast/groupcast/sdk"
)

// standing is how far a delivery or a replication is, as progress shows it.
type standing struct {
	title, sent   string // what it is, and a line about how much was sent
	parts         []part
	drawn         func(fit int) []string // what is drawn in place of the parts; nil draws these
	complete, all int
	length        uint64
}

// part is how far one of the receivers is.
type part struct {
	name, state, text string // text is the state with its reason
	moving            bool   // it still gets more
	open              bool   // it is waited for
	bytes             uint64
	elapsed           time.Duration
	unknown           bool // nobody knows how many bytes
}

// progress shows how something goes on: on a terminal, as a screen that is drawn again
// and again; elsewhere, with a line for whatever is new.
type progress struct {
	*screen
	tree     bool // draw who feeds whom, in place of how far each member is
	told     map[string]string
	said     string // the last line that said how far it is
	lastLine time.Time
	latest   string // what such a line would have said lately
	latestAt time.Time
	unserved unserved
	before   map[string]sample
	most     map[string]uint64 // the most that was seen at each receiver and node of a tree and, under an empty name, as sent
}

// sample is how much somebody had at a time, for the rate.
type sample struct {
	at    time.Time
	bytes uint64
	rate  float64
}

const (
	// linePause is how often there is a line about how far it is, if there is no terminal.
	linePause = 5 * time.Second
	// mostBar is how many characters a bar has at most, mostName a name, and besides the rest of a line.
	mostBar, mostName, besides = 24, 16, 32
	// mostWaiting is how many are named that are waited for, or that get nothing.
	mostWaiting = 3
	// rateSpan is the shortest time over which a rate is measured.
	rateSpan = 400 * time.Millisecond
	// stillSpan is how long somebody must have got nothing to count as still.
	stillSpan = 3 * time.Second
)

func newProgress(a *app) *progress {
	shown := newScreen(a.stderr)
	a.shown.Store(shown)
	return &progress{screen: shown, told: make(map[string]string), before: make(map[string]sample), unserved: unserved{members: make(map[string]*missing)}, most: make(map[string]uint64), lastLine: time.Now()}
}

// atLeast returns how much somebody has. It is never less than was seen before: a manager that begins to lead has yet to hear of it.
func (p *progress) atLeast(who string, bytes uint64) uint64 {
	p.most[who] = max(p.most[who], bytes)
	return p.most[who]
}

// seen returns a delivery with nothing less than was seen of it before.
func (p *progress) seen(d sdk.Delivery) sdk.Delivery {
	d.SentBytes, d.Receipts, d.Tree = p.atLeast("", d.SentBytes), slices.Clone(d.Receipts), slices.Clone(d.Tree)
	for i, r := range d.Receipts {
		d.Receipts[i].Bytes = p.atLeast(r.Member, r.Bytes)
		d.Receipts[i].BytesUnknown = r.BytesUnknown && d.Receipts[i].Bytes == 0
	}
	for i, node := range d.Tree {
		d.Tree[i].Bytes = p.atLeast(node.ID, node.Bytes)
	}
	return d
}

// watchToEnd shows all that a watch yields, or writes it as data, and returns the last of it.
func watchToEnd[R any](a *app, states iter.Seq2[R, error], show func(R), shown *progress) (last R, err error) {
	defer shown.end()
	for state, err := range states {
		if err != nil {
			return last, err
		}
		last = state
		if a.output != "json" && a.output != "yaml" {
			show(state)
			continue
		}
		if err := a.event(state, ""); err != nil {
			return last, err
		}
	}
	return last, nil
}

// show shows a delivery as it is now.
func (p *progress) show(d sdk.Delivery) {
	p.sayUnserved(d)
	d = p.seen(d)
	s := standing{
		title:    fmt.Sprintf("%s  %s → %s  %s", shortID(d), printable.Text(d.Name), d.Group, deliverySize(d)),
		sent:     fmt.Sprintf("%s: %s of %s sent, %d of %d members complete", shortID(d), bytesize.Short(content(d.Kind, d.SentBytes)), deliverySize(d), d.Complete, d.Members),
		complete: d.Complete, all: d.Members, length: content(d.Kind, d.Length),
	}
	for _, r := range d.Receipts {
		moving := r.State == sdk.ReceiptReceiving
		s.parts = append(s.parts, part{
			r.Member, string(r.State), receiptState(r), moving, moving || r.State == sdk.ReceiptUnknown, content(d.Kind, r.Bytes), r.Elapsed, r.BytesUnknown,
		})
	}
	switch {
	case p.tree && slices.Contains(d.LeftOut, "tree"):
		s.drawn = func(int) []string { return []string{"the tree does not fit into one answer"} }
	case p.tree && len(d.Tree) > 0:
		s.drawn = func(fit int) []string {
			width, _ := p.size()
			return treeLines(d, width, fit)
		}
	}
	p.present(s)
}

// present shows how something stands now.
func (p *progress) present(s standing) {
	if p.terminal == nil {
		p.tell(s)
		return
	}
	p.draw(s)
}

// tell writes a line for each part whose state has changed, and one about all now and then.
func (p *progress) tell(s standing) {
	for _, one := range s.parts {
		if p.told[one.name] != one.state && !one.moving {
			p.say(one.line())
		}
		p.told[one.name] = one.state
	}
	p.tellHowFar(s.sent + waitingFor(s.parts))
}

// tellHowFar writes a line about all now and then. What comes first after a gap may be of a manager that begins to lead: if it says nothing new,
// that has yet to hear how far they are.
func (p *progress) tellHowFar(line string) {
	now := time.Now()
	if line == p.latest && now.Sub(p.latestAt) >= linePause {
		p.lastLine = now
	}
	p.latest, p.latestAt = line, now
	if now.Sub(p.lastLine) < linePause {
		return
	}
	if p.lastLine = now; line != p.said {
		p.said = line
		p.say(line)
	}
}

// line says how a part stands, and how much it has, if that is known.
func (one part) line() string {
	if one.unknown {
		return one.name + ": " + one.text
	}
	return fmt.Sprintf("%s: %s (%s)", one.name, one.text, bytesize.Short(one.bytes))
}

// waitingFor names those that are waited for.
func waitingFor(parts []part) string {
	var names []string
	for _, one := range parts {
		if one.open {
			names = append(names, one.name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; waiting for " + listed(names)
}

// listed names as many as can be read in a line.
func listed(names []string) string {
	if more := len(names) - mostWaiting; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostWaiting], ", "), more)
	}
	return strings.Join(names, ", ")
}

// draw draws the screen over what was drawn before.
func (p *progress) draw(s standing) {
	width, height := p.size()
	fit, lines := max(height-3, 1), []string{s.title}
	if s.drawn != nil {
		lines = append(lines, s.drawn(fit)...)
	} else {
		lines = append(lines, p.partLines(s, width, fit)...)
	}
	p.drawLines(lines)
}

// partLines draws how far each part is, on a screen of a width. Its last column stays empty: see drawLines.
func (p *progress) partLines(s standing, width, fit int) (lines []string) {
	parts, hidden := undone(s.parts, fit)
	for _, one := range parts {
		lines = append(lines, p.line(s, one, width-1))
	}
	if hidden > 0 {
		lines = append(lines, fmt.Sprintf("and %d more: %d of %d complete", hidden, s.complete, s.all))
	}
	return lines
}

// undone returns as many parts as fit, beginning with those that are waited for.
func undone(all []part, fit int) (shown []part, hidden int) {
	if len(all) <= fit {
		return all, 0
	}
	fit-- // for a line about the others
	for _, want := range []bool{true, false} {
		for _, one := range all {
			if one.open == want && len(shown) < fit {
				shown = append(shown, one)
			}
		}
	}
	return shown, len(all) - len(shown)
}

// line draws how far a part is, with a bar if the line is wide enough.
func (p *progress) line(s standing, one part, width int) string {
	nameWidth := min(max(width-besides+3, 8), mostName)
	barWidth := min(max(width-besides-nameWidth, 0), mostBar)
	name := fmt.Sprintf("%-*.*s", nameWidth, max(nameWidth, width-besides-barWidth), one.name)
	if !one.moving {
		return fmt.Sprintf("%s %-*s %s", name, barWidth+2, one.text, seconds(one.elapsed))
	}
	bar, share := "["+strings.Repeat(" ", barWidth)+"] ", ""
	if s.length > 0 {
		done := min(float64(one.bytes)/float64(s.length), 1)
		full := int(done * float64(barWidth))
		bar = "[" + strings.Repeat("█", full) + strings.Repeat("░", barWidth-full) + "] "
		share = fmt.Sprintf("%3.0f%% ", 100*done)
	}
	if barWidth == 0 {
		bar = ""
	}
	return fmt.Sprintf("%s %s%s%10s %10s/s", name, bar, share, bytesize.Short(one.bytes), bytesize.Short(uint64(p.rate(one))))
}

// rate returns how fast somebody receives: between the last two times that it was heard
// to have more.
func (p *progress) rate(one part) float64 {
	now, before := time.Now(), p.before[one.name]
	passed := now.Sub(before.at)
	switch {
	case before.at.IsZero() || one.bytes < before.bytes:
		before = sample{at: now, bytes: one.bytes}
	case one.bytes > before.bytes && passed >= rateSpan:
		before = sample{now, one.bytes, float64(one.bytes-before.bytes) / passed.Seconds()}
	case passed > stillSpan:
		before.rate = 0
	}
	p.before[one.name] = before
	return before.rate
}

// refusedPause is how often to ask managers whether they refuse writes.
const refusedPause = 5 * time.Second

// sayRefused tells, until it is stopped, that the managers refuse writes, as with a full disk, and when they accept them again: meanwhile
// transfers go on, and their outcome is not decided.
func (a *app) sayRefused(ctx context.Context, client *sdk.Client, say func(string)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	asking.Go(func() {
		refused := false
		for pause.For(ctx, refusedPause) {
			status, err := client.Status(ctx)
			if err != nil || refused == (status.ReadOnlyReason != "") {
				continue
			}
			line := "the managers take writes again"
			if refused = !refused; refused {
				line = fmt.Sprintf("%s. Until then no delivery begins or ends", status.ReadOnlyReason)
			}
			say(line)
		}
	})
	return func() {
		cancel()
		asking.Wait()
	}
}
