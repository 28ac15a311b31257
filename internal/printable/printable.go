// Package printable has texts that others chose shown so that they do no harm: no name moves a
// terminal's cursor, breaks a table, or begins another line of a log.
package printable

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns a text with all that is no character to be seen written as Go does.
func Text(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) < 0 {
		return text
	}
	quoted := strconv.Quote(text)
	return quoted[1 : len(quoted)-1]
}

// Lines is Text of each line, for texts that are several; tabs before one stay.
func Lines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		after := strings.TrimLeft(line, "\t")
		lines[i] = line[:len(line)-len(after)] + Text(after)
	}
	return strings.Join(lines, "\n")
}
