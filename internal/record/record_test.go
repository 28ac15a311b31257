package record_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/groupcast/groupcast/internal/record"
)

var head = record.Head{
	Name: "disk.img", Length: 1000, Profile: "fast", Datagram: 1472, Server: "10.0.0.1:40000", Group: "239.7.7.7:7431", LAN: "eth0", Receivers: 2,
	Began: time.Unix(1000, 0).UTC(),
}

// written is a record with so many samples.
func written(t *testing.T, samples int) string {
	t.Helper()
	var file bytes.Buffer
	w, err := record.NewWriter(&file, head)
	if err != nil {
		t.Fatal(err)
	}
	for i := range samples {
		if err := w.Write(sample(i)); err != nil {
			t.Fatal(err)
		}
	}
	return file.String()
}

func sample(i int) record.Sample {
	return record.Sample{Seconds: float64(i) / 10, Window: 32 + i, Bytes: uint64(i) * 1000, Packets: uint64(i)}
}

func read(text string) (record.Record, error) {
	return record.Read(bufio.NewReader(strings.NewReader(text)))
}

// What is written is read. The first line is the format: earlier versions read it.
func TestWhatIsWrittenIsRead(t *testing.T) {
	text := written(t, 3)
	r, err := read(text)
	want := record.Record{Head: head, Samples: []record.Sample{sample(0), sample(1), sample(2)}}
	if diff := cmp.Diff(want, r); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	first, rest, _ := strings.Cut(text, "\n")
	if want := `{"record":"groupcast replication","version":1,"name":"disk.img","length":1000,"profile":"fast","datagram":1472,"server":"10.0.0.1:40000",` +
		`"group":"239.7.7.7:7431","lan":"eth0","receivers":2,"began":"1970-01-01T00:16:40Z"}`; first != want {
		t.Errorf("it begins with %s", first)
	}
	if second, _, _ := strings.Cut(rest, "\n"); !strings.HasPrefix(second, `{"seconds":0,"window":32,"bytes":0,"packets":0,"repairs":0,`) {
		t.Errorf("it goes on with %s", second)
	}
	if r, err := read(strings.TrimSuffix(text, "\n")); err != nil || len(r.Samples) != 3 {
		t.Errorf("without the last end of a line: %d samples, %v", len(r.Samples), err)
	}
}

// Of a record that is cut, or of which lines are broken, there is what is whole.
func TestWhatIsWholeIsRead(t *testing.T) {
	text := written(t, 4)
	lines := strings.SplitAfter(text, "\n")
	lacking := func(line int, other string) string {
		return strings.Join(lines[:line-1], "") + other + strings.Join(lines[line:], "")
	}
	for name, tt := range map[string]struct {
		text    string
		samples int
		want    error
		said    string
	}{
		"cut":                          {text[:len(text)-10], 3, record.ErrCut, "cut"},
		"only its beginning":           {lines[0], 0, nil, ""},
		"no JSON":                      {lacking(3, "\x00\x00\n"), 3, record.ErrBroken, "line 3 of the record is broken"},
		"something else":               {lacking(3, `{"other":1}`+"\n"), 3, record.ErrBroken, "line 3"},
		"a time that goes back":        {text + lines[1], 4, record.ErrBroken, "line 6"},
		"negative":                     {lacking(2, `{"seconds":0,"window":-1}`+"\n"), 3, record.ErrBroken, "line 2"},
		"more sent again than sent":    {lacking(2, `{"seconds":0,"repairs":1}`+"\n"), 3, record.ErrBroken, "line 2"},
		"two lines":                    {lacking(3, "\n\n"), 3, record.ErrBroken, "2 lines of the record are broken, and left out, the first is line 3"},
		"cut, and broken":              {strings.TrimSuffix(lacking(3, "\n"), lines[4][10:]), 2, record.ErrBroken, "cut"},
		"a later version's, with more": {lacking(3, `{"more":{},`+lines[2][1:]), 4, nil, ""},
	} {
		r, err := read(tt.text)
		if len(r.Samples) != tt.samples || !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), tt.said) || r.Name != head.Name {
			t.Errorf("%s: %d samples, %v", name, len(r.Samples), err)
		}
	}
}

// What is no record is refused, however long its lines are.
func TestWhatIsNoRecordIsRefused(t *testing.T) {
	for _, text := range []string{
		"", "{", "{}", "[]", "a text", `{"record":"something else"}`, `{"record":"groupcast replication","version":2}` + "\n",
		"{" + strings.Repeat(" ", 3<<20), written(t, 1) + strings.Repeat(" ", 3<<20),
	} {
		if _, err := read(text); !errors.Is(err, record.ErrFormat) {
			t.Errorf("%.50q: %v", text, err)
		}
	}
}

// A record is told from a capture by its first byte.
func TestWhatARecordBeginsWith(t *testing.T) {
	for text, want := range map[string]bool{written(t, 0): true, "": false, "\xd4\xc3\xb2\xa1": false, "\x0a\x0d\x0d\x0a": false} {
		from := bufio.NewReader(strings.NewReader(text))
		if is := record.Begins(from); is != want {
			t.Errorf("%.20q: %t", text, is)
		}
		if from.Buffered() != min(len(text), 4096) {
			t.Errorf("of %.20q something is read", text)
		}
	}
}

func ExampleRead() {
	r, err := read(`{"record":"groupcast replication","version":1,"name":"disk.img"}
{"seconds":0.1,"window":40,"bytes":1000}
{"seconds":0.2,"wind`)
	fmt.Println(r.Name, len(r.Samples), err)
	// Output: disk.img 1 the record is cut: it ends within a line
}
