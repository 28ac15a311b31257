// Package printable has texts that others chose shown so that they do no harm: no name moves a
// terminal's cursor, breaks a table, or begins another line of a log.
package printable

import (
	"slices"
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

// OneLine makes an error's text what a message can carry: with one byte that is not UTF-8, of a file's name, none is ever
// sent, and the stream that it is for breaks again and again. What errors say that were joined is on one line, once.
func OneLine(text string) string {
	var said []string
	for line := range strings.SplitSeq(strings.ToValidUTF8(text, "\ufffd"), "\n") {
		if !slices.Contains(said, line) {
			said = append(said, line)
		}
	}
	return strings.Join(said, "; ")
}
