package printable_test

import (
	"errors"
	"testing"

	"github.com/groupcast/groupcast/internal/printable"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"größe 100 %.bin": "größe 100 %.bin", "": "", `a "quoted" one`: `a "quoted" one`,
		"red\033[31m": `red\x1b[31m`, "two\nlines": `two\nlines`, "n\xffo": `n\xffo`, "a\u202eb": `a\u202eb`,
		"red\033[31m: \"red\\x1b[31m\" is reserved": `red\x1b[31m: "red\x1b[31m" is reserved`,
	} {
		got := printable.Text(text)
		if got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
		if again := printable.Text(got); again != got {
			t.Errorf("%q is shown as %q", got, again)
		}
	}
}

func TestLines(t *testing.T) {
	if got, want := printable.Lines("of a tree:\n\tf\033[31m: a named\tpipe"), "of a tree:\n\tf\\x1b[31m: a named\\tpipe"; got != want {
		t.Errorf("shown as %q, want %q", got, want)
	}
}

// The result is one line of UTF-8, and says nothing twice.
func TestOneLine(t *testing.T) {
	err := errors.Join(errors.New("source changed: a\xff"), errors.New("source changed: a\xff"), errors.New("close b"))
	if got, want := printable.OneLine(err.Error()), "source changed: a\ufffd; close b"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
