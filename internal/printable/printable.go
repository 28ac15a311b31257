// Package printable has texts that others chose shown so that they do no harm: no name moves a
// terminal's cursor, breaks a table, or begins another line of a log.
package printable

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns a text with all that is no character to be seen written as Go does. The rest stays as it is: what was quoted
// already is not escaped again.
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

// isUnseen reports whether a character is none to be seen, or what stands for a byte that is not UTF-8.
func isUnseen(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }

// Lines is Text of each line, for texts that are several; tabs before one stay.
func Lines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		after := strings.TrimLeft(line, "\t")
		lines[i] = line[:len(line)-len(after)] + Text(after)
	}
	return strings.Join(lines, "\n")
}
