package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/groupcast/groupcast/internal/chart"
	"github.com/groupcast/groupcast/internal/record"
)

// transfer is a record of 600 ms in which 250,000 bytes are sent in each 100 ms, and nothing in one of these.
func transfer(t *testing.T) string {
	t.Helper()
	var file bytes.Buffer
	w, err := record.NewWriter(&file, record.Head{Name: "disk.img", Server: "10.0.0.1:40000", Group: "239.7.7.7:7431"})
	if err != nil {
		t.Fatal(err)
	}
	for i, sent := range []uint64{0, 1, 2, 2, 3, 4, 5} {
		err := w.Write(record.Sample{Seconds: float64(i) / 10, Window: 32 + 8*(i%5), Bytes: 250_000 * sent, Packets: 200 * sent, Repairs: 3 * sent})
		if err != nil {
			t.Fatal(err)
		}
	}
	return file.String()
}

// drawnFrom has a file drawn, and returns the exit status, what is printed, and what is said.
func drawnFrom(t *testing.T, content string, more ...string) (status int, out, said string, dir string) {
	t.Helper()
	dir = t.TempDir()
	name := filepath.Join(dir, "transfer")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	status = Main(append([]string{"groupcast", "soma", "figures", name, "--into", dir}, more...), &stdout, &stderr)
	return status, stdout.String(), stderr.String(), dir
}

// A sender's record is drawn as a capture is. What it has not is left out.
func TestRecordIsDrawn(t *testing.T) {
	status, out, said, dir := drawnFrom(t, transfer(t))
	row := strings.Join(strings.Fields(strings.Split(out+"\n\n", "\n")[1]), " ")
	want := "10.0.0.1:40000 239.7.7.7:7431 - 64 985 - - 15 " + filepath.Join(dir, "window-1.svg") + "," + filepath.Join(dir, "throughput-1.svg")
	if status != exitOK || row != want {
		t.Fatalf("it ends with %d: %q, want %q, %s", status, row, want, said)
	}
	for _, name := range []string{"window-1.svg", "throughput-1.svg"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(text), "<path d") {
			t.Errorf("%s: %v", name, err)
		}
	}

	status, out, said, dir = drawnFrom(t, transfer(t), "-o", "json", "--format", "png")
	var got any
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != exitOK {
		t.Fatalf("it ends with %d: %v, %s", status, err, said)
	}
	all := []any{map[string]any{
		"name": "disk.img", "server": "10.0.0.1:40000", "group": "239.7.7.7:7431", "largest_window": 64.0, "data": 985.0, "repairs": 15.0,
		"files": []any{filepath.Join(dir, "window-1.png"), filepath.Join(dir, "throughput-1.png")},
	}}
	if diff := cmp.Diff(all, got); diff != "" {
		t.Error(diff)
	}
}

// Throughput is measured over a piece, or the first time after it that there is; of what is shorter, over all.
func TestThroughputOfARecord(t *testing.T) {
	at := func(times ...float64) (all []record.Sample) {
		for i, seconds := range times {
			all = append(all, record.Sample{Seconds: seconds, Bytes: uint64(i) * 125_000})
		}
		return all
	}
	for _, tt := range []struct {
		samples []record.Sample
		piece   time.Duration
		want    []chart.Point
	}{
		{at(0, 0.25, 0.5, 1), 250 * time.Millisecond, []chart.Point{{X: 0, Y: 4}, {X: 0.25, Y: 4}, {X: 0.5, Y: 4}, {X: 1, Y: 2}}},
		{at(0, 0.25, 0.5, 1), 500 * time.Millisecond, []chart.Point{{X: 0, Y: 4}, {X: 0.5, Y: 4}, {X: 1, Y: 2}}},
		{at(0, 0.25, 0.5), time.Second, []chart.Point{{X: 0, Y: 4}, {X: 0.5, Y: 4}}},
		{at(0), time.Second, nil},
	} {
		if diff := cmp.Diff(tt.want, throughput(tt.samples, tt.piece)); diff != "" {
			t.Errorf("of %d samples, %v: %s", len(tt.samples), tt.piece, diff)
		}
	}
}

// Of a record that is cut or broken there is drawn what there is, and it is an error, as of captures.
func TestRecordThatIsNotWhole(t *testing.T) {
	text := transfer(t)
	lines := strings.SplitAfter(text, "\n")
	for name, tt := range map[string]struct {
		content string
		more    []string
		status  int
		isDrawn bool
		want    string
	}{
		"cut":                   {text[:len(text)-20], nil, exitFailed, true, "transfer: the record is cut: it ends within a line"},
		"broken":                {strings.Replace(text, lines[3], "{\n", 1), nil, exitFailed, true, "transfer: line 4 of the record is broken, and left out"},
		"of nothing":            {lines[0], nil, exitFailed, false, "says of no packet that it was sent"},
		"of something else":     {"{}\n", nil, exitFailed, false, "transfer: not a record of a replication"},
		"nothing":               {"", nil, exitFailed, false, "it is too short"},
		"asked for its packets": {text, []string{"--count", "3"}, exitUsage, false, "--count: "},
	} {
		status, out, said, dir := drawnFrom(t, tt.content, tt.more...)
		_, err := os.Stat(filepath.Join(dir, "window-1.svg"))
		if status != tt.status || !strings.Contains(said, tt.want) || (err == nil) != tt.isDrawn || strings.Contains(out, "10.0.0.1:40000") != tt.isDrawn {
			t.Errorf("%s: it ends with %d: %q, %s", name, status, said, out)
		}
	}
}
