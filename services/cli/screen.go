package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/term"
	"golang.org/x/text/width"
)

// screen is where something is drawn again and again, if it is a terminal.
type screen struct {
	to       io.Writer
	terminal *os.File // nil if it is not a terminal

	mu    sync.Mutex
	drawn int // lines on the terminal that are to be drawn over
}

// back goes back so many lines, to the beginning of the line: what was typed meanwhile, as ^C, has moved the cursor.
const back = "\r\x1b[%dA"

func newScreen(to io.Writer) *screen {
	s := &screen{to: to}
	if file, isFile := to.(*os.File); isFile && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb" {
		s.terminal = file
	}
	return s
}

// size returns how many columns and lines there are.
func (s *screen) size() (width, height int) {
	width, height, err := term.GetSize(int(s.terminal.Fd()))
	if err != nil || width <= 0 || height <= 0 { // as over a serial line
		return 80, 24
	}
	return width, height
}

// drawLines draws over what was drawn before.
func (s *screen) drawLines(lines []string) {
	wide, _ := s.size()
	s.mu.Lock()
	defer s.mu.Unlock()
	var text strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&text, back, s.drawn)
	}
	for _, line := range lines {
		fmt.Fprintf(&text, "%s\x1b[K\n", cutColumns(line, wide-1))
	}
	text.WriteString("\x1b[J")
	s.drawn = len(lines)
	fmt.Fprint(s.to, text.String())
}

// end leaves what was drawn: what comes next goes below it.
func (s *screen) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
}

func (s *screen) clear() {
	if s.drawn > 0 {
		fmt.Fprintf(s.to, back+"\x1b[J", s.drawn)
		s.drawn = 0
	}
}

// say writes a line that stays, above what is drawn next. Any goroutine may call it.
func (s *screen) say(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	fmt.Fprintln(s.to, line)
}

// sayNow shows a line that the next one takes the place of, on a terminal; elsewhere it stays.
func (s *screen) sayNow(line string) {
	if s.terminal == nil {
		s.say(line)
		return
	}
	s.drawLines([]string{line})
}

// within returns as many lines as fit, the last of which tells of the others.
func within(lines []string, fit int, more func(left int) string) []string {
	if len(lines) <= fit {
		return lines
	}
	shown := max(fit-1, 0)
	return append(lines[:shown:shown], fmt.Sprintf("and %d more: %s", len(lines)-shown, more(len(lines)-shown)))
}

// cutColumns shortens a line, so that it stays one.
func cutColumns(text string, most int) string {
	taken := 0
	for i, r := range text {
		if taken += columns(r); taken > max(most, 1) {
			return text[:i]
		}
	}
	return text
}

// span returns how many columns of a terminal a text takes.
func span(text string) (taken int) {
	for _, r := range text {
		taken += columns(r)
	}
	return taken
}

// columns returns how many columns of a terminal a character takes: two for those of East Asia and emojis, and none for one that
// combines with the character before it.
func columns(r rune) int {
	kind := width.LookupRune(r).Kind()
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case kind == width.EastAsianWide || kind == width.EastAsianFullwidth:
		return 2
	}
	return 1
}
