package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/groupcast/groupcast/sdk"
)

func TestCutMiddle(t *testing.T) {
	for text, want := range map[string]string{"": "", "1234567": "1234567", "12345678": "123…678", "äöüßäöüß": "äöü…öüß"} {
		if got := cutMiddle(text, 7); got != want {
			t.Errorf("%q is cut to %q, want %q", text, got, want)
		}
	}
}

// A table with a name of 255 bytes can still be read; a wide one has all of the name.
func TestLongNamesAreCut(t *testing.T) {
	name := strings.Repeat("n", 251) + ".bin"
	columns := []column[string]{{title: "NAME", long: true, cell: func(s string) string { return s }}, {title: "ID", cell: func(s string) string { return s }}}
	for wide, want := range map[bool]string{true: name, false: strings.Repeat("n", 20) + "…" + strings.Repeat("n", 15) + ".bin"} {
		var to strings.Builder
		if err := printTable(&to, []string{name}, columns, wide); err != nil {
			t.Fatal(err)
		}
		if cells := strings.Fields(strings.Split(to.String(), "\n")[1]); cells[0] != want || cells[1] != name {
			t.Errorf("wide: %v: %q", wide, cells)
		}
	}
}

// If a table does not fit, columns are left out in their order, and no more than have to be.
func TestTablesAreFitted(t *testing.T) {
	var columns []column[string]
	for _, title := range []string{"NAME", "AGE", "SIZE"} {
		columns = append(columns, column[string]{title: title, cell: func(s string) string { return s }})
	}
	for width, want := range map[int]string{80: "NAME AGE SIZE", 25: "NAME AGE SIZE", 24: "NAME SIZE", 16: "NAME SIZE", 15: "NAME", 3: "NAME"} {
		lines, err := fitted([]string{"123456"}, columns, []string{"AGE", "SIZE"}, false, width)
		if err != nil || strings.Join(strings.Fields(lines[0]), " ") != want || len(lines) != 2 {
			t.Errorf("%d characters: %q %v, want %s", width, lines, err, want)
		}
	}
}

// Records that the API has no message for write numbers of 64 bits as the API does: as text.
func TestNumbersAreTextInJSON(t *testing.T) {
	var out bytes.Buffer
	a := &app{stdout: &out, stderr: io.Discard, output: "json"}
	if err := a.arrived(new(pull), sdk.Arrived{Bytes: 1 << 60, Datagrams: &sdk.DatagramCounts{Received: 1, Recovered: 2, Late: 3, Lost: 4, Duplicated: 5, Reordered: 6}}); err != nil {
		t.Fatal(err)
	}
	if err := printOne(a, checked{Bytes: 1 << 60}, checkedColumns); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"bytes":"1152921504606846976"`, `"bytes": "1152921504606846976"`,
		`"datagrams":{"received":"1","recovered":"2","late":"3","lost":"4","duplicated":"5","reordered":"6"}`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %s in %s", want, out.String())
		}
	}
}
