package cli

import (
	"bytes"
	"testing"
)

// A terminal shows ^C where the cursor is: what ends the screen begins at the beginning of its first line.
func TestScreenEndsAtItsBeginning(t *testing.T) {
	var to bytes.Buffer
	s := &screen{to: &to, drawn: 3}
	s.end()
	if want := "\r\x1b[3A\x1b[J"; to.String() != want {
		t.Errorf("a screen of three lines ends with %q, want %q", &to, want)
	}
}

// A line that is drawn again stays one line, even if its characters take two columns, or none.
func TestLinesAreCutByColumns(t *testing.T) {
	for _, tt := range []struct {
		text  string
		width int
		want  string
	}{
		{"größe.bin", 9, "größe.bin"},
		{"größe.bin", 4, "größ"},
		{"日本語.bin", 5, "日本"},
		{"日本語.bin", 6, "日本語"},
		{"e\u0301te\u0301", 2, "e\u0301t"},
		{"🙂🙂", 3, "🙂"},
		{"", 3, ""},
		{"ab", 0, "a"},
	} {
		if got := cutColumns(tt.text, tt.width); got != tt.want {
			t.Errorf("%q in %d columns is %q, want %q", tt.text, tt.width, got, tt.want)
		}
	}
}
