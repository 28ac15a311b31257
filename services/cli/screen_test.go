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
