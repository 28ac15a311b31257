package alone

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

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
}

func (l *line) sending(p send.Progress) {
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
	file, is := l.to.(*os.File)
	if l.quiet || !is || !term.IsTerminal(int(file.Fd())) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shown = true
	text := fmt.Sprintf(format, args...)
	fmt.Fprintf(l.to, "\r%s%s", text, strings.Repeat(" ", max(0, 78-len(text))))
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
