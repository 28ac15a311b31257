// Package printable makes texts that others chose harmless to show: no name moves a terminal's
// cursor, breaks a table, or begins another line of a log.
package printable

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns a text in which everything but printable characters is written as in Go strings. The rest stays as it is:
// what is already quoted is not escaped again.
func Text(text string) string {
	if strings.IndexFunc(text, isUnseen) < 0 {
		return text
	}
	var shown strings.Builder
	for text != "" {
		r, size := utf8.DecodeRuneInString(text)
		one := text[:size]
		if text = text[size:]; isUnseen(r) {
			quoted := strconv.Quote(one)
			one = quoted[1 : len(quoted)-1]
		}
		shown.WriteString(one)
	}
	return shown.String()
}

// isUnseen reports whether a character is not printable, or stands for a byte that is not UTF-8.
func isUnseen(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }

// Lines applies Text to each line of a text; leading tabs stay.
func Lines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		after := strings.TrimLeft(line, "\t")
		lines[i] = line[:len(line)-len(after)] + Text(after)
	}
	return strings.Join(lines, "\n")
}

// OneLine turns an error's text into one that a message can carry. A message with a single byte that is not UTF-8, for
// instance from a file's name, is never sent, and its stream breaks again and again. The texts of joined errors are put
// on one line, each once.
func OneLine(text string) string {
	var said []string
	for line := range strings.SplitSeq(strings.ToValidUTF8(text, "\ufffd"), "\n") {
		if !slices.Contains(said, line) {
			said = append(said, line)
		}
	}
	return strings.Join(said, "; ")
}
