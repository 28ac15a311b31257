package alone

import (
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/term"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/printable"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// line is the progress, on one line of a terminal; elsewhere on a line of its own now and then.
type line struct {
	to    io.Writer
	quiet bool
	mu    sync.Mutex
	shown bool
	said  time.Time             // when it was, last, where there is no terminal
	away  map[receiver]*absence // receivers that are silent
}

// receiver is what identifies a receiver. One that was started again has another port.
type receiver struct {
	name string
	at   netip.Addr
}

// saidEvery is how often the progress is written where there is no terminal.
const saidEvery = 10 * time.Second

// absence is a receiver's silence.
type absence struct {
	since time.Time
	told  bool
}

// silentFor is how long a receiver has been silent when that is said: one whose disk is busy is soon heard again.
const silentFor = 3 * time.Second

func (l *line) sending(p send.Progress) {
	now := time.Now()
	l.absences(p.Members, now)
	l.show(now, "%s", progressOf(p))
}

// progressOf says how far a sender and its receivers are. All have what the last of those has that are not done, also if it is silent: it may
// come back. Where all are done or given up, there is no such clause.
func progressOf(p send.Progress) string {
	done, away, running, slowest := 0, 0, 0, p.Length
	for _, m := range p.Members {
		switch m.Outcome {
		case algo.Complete:
			done++
			continue
		case algo.Running:
			running++
			slowest = min(slowest, m.Landed)
		}
		if m.Silent {
			away++
		}
	}
	all := ""
	if running > 0 {
		all = ", all have " + bytesize.Short(slowest)
	}
	return fmt.Sprintf("sent %s of %s%s; %d of %d complete, %d silent", bytesize.Short(p.Sent), bytesize.Short(p.Length), all, done, len(p.Members), away)
}

// absences says which receivers fall silent, and which are back, where there is no terminal: a terminal shows all the time how many are silent.
func (l *line) absences(members []send.Receipt, now time.Time) {
	if l.isTerminal() {
		return
	}
	before := l.away
	l.away = make(map[receiver]*absence) // without those that are gone
	for _, m := range members {
		who := receiver{m.Name, m.Address.Addr()}
		l.absence(who, m, before[who], now)
	}
}

// absence says that a receiver falls silent, or what became of one that was: away is its silence so far, and nil if it has been heard.
func (l *line) absence(who receiver, m send.Receipt, away *absence, now time.Time) {
	isSilent := m.Silent && m.Outcome == algo.Running
	switch {
	case isSilent && away == nil:
		l.away[who] = &absence{since: now}
	case isSilent:
		l.away[who] = away
		if !away.told && now.Sub(away.since) >= silentFor {
			away.told = true
			l.say("%s (%s) is silent", who.name, who.at)
		}
	case away == nil || !away.told || m.Outcome == algo.Failed: // the table says why
	case m.Outcome == algo.Unknown:
		l.say("%s (%s) is given up", who.name, who.at)
	default:
		l.say("%s (%s) is back", who.name, who.at)
	}
}

// begins says what is received from whom.
func (l *line) begins(sender netip.AddrPort, info object.Info) {
	l.say("receiving %s, %s, from %s", printable.Text(info.Name), bytesize.Short(info.Length), sender.Addr())
}

func (l *line) receiving(p receive.Progress) {
	l.show(time.Now(), "%s of %s", bytesize.Short(p.Landed), bytesize.Short(p.Length))
}

// say says something once, also where there is no terminal.
func (l *line) say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(format, args...)
}

// write is say for a caller that has the lock.
func (l *line) write(format string, args ...any) {
	if !l.quiet {
		fmt.Fprintf(l.to, format+"\n", args...)
	}
}

// waitsLong is after how long it is said what may be in the way of those that are waited for.
const waitsLong = 10 * time.Second

// waits says for whom it is waited, and after a while what they need to be heard. The returned function is called once nobody is waited for.
func (l *line) waits(whom, lan string) (end func()) {
	l.say("waiting for %s on %s", whom, lan)
	later := time.AfterFunc(waitsLong, func() {
		l.say("still waiting for %s: the same phrase and a LAN that carries multicast are needed; firewalls, bridges' too, and switches that snoop without a querier may be in the way", whom)
	})
	return func() { later.Stop() }
}

func (l *line) show(now time.Time, format string, args ...any) {
	if l.quiet {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isTerminal() {
		l.now(now, format, args...)
		return
	}
	l.shown = true
	fmt.Fprintf(l.to, "\r%s\x1b[K", cut(fmt.Sprintf(format, args...), l.width()))
}

// width returns how many characters fit on the line.
func (l *line) width() int {
	if file, is := fileOf(l.to); is {
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 1 {
			return columns - 1
		}
	}
	return 79
}

// cut returns the beginning of a text: what is longer than a line would begin another each time.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:max(0, most-1)] + "…"
}

// now writes the progress if it was not written for a while. A replication that is soon over writes it at the end alone. The caller has the lock.
func (l *line) now(at time.Time, format string, args ...any) {
	switch {
	case l.said.IsZero():
		l.said = at
	case at.Sub(l.said) >= saidEvery:
		l.said = at
		l.write(format, args...)
	}
}

func (l *line) isTerminal() bool {
	file, is := fileOf(l.to)
	return is && term.IsTerminal(int(file.Fd()))
}

// end clears the line: what follows says how it ended.
func (l *line) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown {
		fmt.Fprint(l.to, "\r\x1b[K")
	}
	l.shown = false
	if b, is := l.to.(*beside); is {
		b.flush()
	}
}
