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

// A table with a name of 255 bytes can still be read on a terminal; a wide one, and one that is read by a program, has all of the name.
func TestLongNamesAreCut(t *testing.T) {
	name := strings.Repeat("n", 251) + ".bin"
	columns := []column[string]{{title: "NAME", long: true, cell: func(s string) string { return s }}, {title: "ID", cell: func(s string) string { return s }}}
	for wide, want := range map[bool]string{true: name, false: strings.Repeat("n", 20) + "…" + strings.Repeat("n", 15) + ".bin"} {
		lines, err := fitted([]string{name}, columns, nil, wide, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if cells := strings.Fields(lines[1]); cells[0] != want || cells[1] != name {
			t.Errorf("wide: %v: %q", wide, cells)
		}
		var to strings.Builder
		if err := printTable(&to, []string{name}, columns, wide); err != nil || strings.Count(to.String(), name) != 2 {
			t.Errorf("a program reads %v %q", err, to.String())
		}
	}
}

// On a terminal no row is wider than that: long cells are cut, columns are left out, sentences go on below, and what is too wide all the
// same is cut. A wide table has all there is.
func TestRowsFitATerminal(t *testing.T) {
	type row struct{ name, sender, why string }
	columns := []column[row]{
		{title: "NAME", long: true, cell: func(r row) string { return r.name }},
		{title: "SENDER", cell: func(r row) string { return r.sender }},
		{title: "WHY", prose: true, cell: func(r row) string { return r.why }},
	}
	long := strings.Repeat("name-", 8)
	for name, tt := range map[string]struct {
		row
		wide  bool
		width int
		want  string
	}{
		"fits":            {row{"n", "s", "why"}, false, 80, "NAME SENDER WHY|n s why"},
		"cut":             {row{long, "s", "a few words"}, false, 48, "NAME SENDER WHY|name-name-na…-name-name- s a few words"},
		"left out":        {row{"n", long, "a few words"}, false, 48, "NAME WHY|n a few words"},
		"of East Asia":    {row{"模型模型", "s", "a few words"}, false, 30, "NAME WHY|模型模型 a few words"},
		"goes on":         {row{"n", long, "many words that do not fit into one line"}, false, 32, "NAME WHY|n many words that do not|fit into one line"},
		"wide, goes on":   {row{"n", "s", "many words that do not fit into one line"}, true, 44, "NAME SENDER WHY|n s many words that do not fit|into one line"},
		"wide, too large": {row{long, long, "a few words"}, true, 60, "NAME SENDER WHY|" + long + " " + long + " a few words"},
		"too narrow":      {row{"n", "s", "a-word-that-is-long"}, false, 12, "NAME WHY|n a-wo"},
	} {
		t.Run(name, func(t *testing.T) {
			lines, err := laidOut([]row{tt.row}, columns, []string{"SENDER"}, tt.wide, tt.width)
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range lines {
				if !tt.wide && span(line) >= tt.width {
					t.Errorf("%q takes %d columns", line, span(line))
				}
				lines[i] = strings.Join(strings.Fields(line), " ")
			}
			if got := strings.Join(lines, "|"); got != tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
		})
	}
}

// A record whose row does not fit has a line for each column.
func TestRecordsStandUpright(t *testing.T) {
	columns := []column[string]{
		{title: "NAME", cell: func(s string) string { return s }},
		{title: "TRUST-DOMAIN", wide: true, cell: func(string) string { return "" }},
	}
	var to strings.Builder
	if err := printUpright(&to, "m", columns, true); err != nil || to.String() != "NAME           m\nTRUST-DOMAIN   -\n" {
		t.Errorf("%v %q", err, to.String())
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
