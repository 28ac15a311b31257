package alone

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// line is the progress, on one line of a terminal.
type line struct {
	to    io.Writer
	quiet bool
	mu    sync.Mutex
	shown bool
	away  map[netip.AddrPort]*absence // receivers that are silent
}

// absence is a receiver's silence.
type absence struct {
	since time.Time
	told  bool
}

// silentFor is how long a receiver is silent of which that is said: one whose disk is busy is soon heard again.
const silentFor = 3 * time.Second

func (l *line) sending(p send.Progress) {
	l.absences(p.Members, time.Now())
	done, away, slowest := 0, 0, p.Length
	for _, m := range p.Members {
		switch {
		case m.Outcome == algo.Complete:
			done++
		case m.Silent:
			away++
		case m.Outcome == algo.Running:
			slowest = min(slowest, m.Landed)
		}
	}
	l.show("sent %s of %s, all have %s; %d of %d complete, %d silent",
		bytesize.Short(p.Sent), bytesize.Short(p.Length), bytesize.Short(slowest), done, len(p.Members), away)
}

// absences says where there is no terminal, which has their number all the time, who falls silent, and who is back.
func (l *line) absences(members []send.Receipt, now time.Time) {
	if l.isTerminal() {
		return
	}
	if l.away == nil {
		l.away = make(map[netip.AddrPort]*absence)
	}
	for _, m := range members {
		away, isSilent := l.away[m.Address], m.Silent && m.Outcome == algo.Running
		switch {
		case isSilent && away == nil:
			l.away[m.Address] = &absence{since: now}
		case isSilent && !away.told && now.Sub(away.since) >= silentFor:
			away.told = true
			l.say("%s (%s) is silent", m.Name, m.Address.Addr())
		case !isSilent && away != nil:
			delete(l.away, m.Address)
			switch {
			case !away.told || m.Outcome == algo.Failed: // the table says why
			case m.Outcome == algo.Unknown:
				l.say("%s (%s) is given up", m.Name, m.Address.Addr())
			default:
				l.say("%s (%s) is back", m.Name, m.Address.Addr())
			}
		}
	}
}

func (l *line) receiving(p receive.Progress) {
	l.show("%s of %s", bytesize.Short(p.Landed), bytesize.Short(p.Length))
}

// say says something once, also where there is no terminal.
func (l *line) say(format string, args ...any) {
	if !l.quiet {
		fmt.Fprintf(l.to, format+"\n", args...)
	}
}

func (l *line) show(format string, args ...any) {
	if l.quiet || !l.isTerminal() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shown = true
	text := fmt.Sprintf(format, args...)
	fmt.Fprintf(l.to, "\r%s%s", text, strings.Repeat(" ", max(0, 78-len(text))))
}

func (l *line) isTerminal() bool {
	file, is := l.to.(*os.File)
	return is && term.IsTerminal(int(file.Fd()))
}

// end leaves the line.
func (l *line) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown {
		fmt.Fprintln(l.to)
	}
	l.shown = false
}
