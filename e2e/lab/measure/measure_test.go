package measure_test

import (
	"bytes"
	"context"
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/measure"
)

func TestSlopeOfATotalIsItsSpeed(t *testing.T) {
	total := measure.Series{Points: []measure.Point{{X: 0, Y: 0}, {X: 1, Y: 100}, {X: 3, Y: 500}}}
	want := []measure.Point{{X: 1, Y: 800}, {X: 3, Y: 1600}}
	if got := total.Slope(8).Points; !slices.Equal(got, want) {
		t.Errorf("slope %v, want %v", got, want)
	}
}

func TestDistributionClimbsToOne(t *testing.T) {
	want := []measure.Point{{X: 1, Y: 0}, {X: 1, Y: 0.25}, {X: 2, Y: 0.5}, {X: 2, Y: 0.75}, {X: 4, Y: 1}}
	if got := measure.Distribution("", []float64{2, 4, 1, 2}).Points; !slices.Equal(got, want) {
		t.Errorf("distribution %v, want %v", got, want)
	}
}

func TestMedianAndQuantile(t *testing.T) {
	if got := measure.Median([]float64{9, 1, 5, 3}); got != 4 {
		t.Errorf("median %v, want 4", got)
	}
	if got := measure.Quantile([]float64{0, 10}, 0.9); got != 9 {
		t.Errorf("quantile %v, want 9", got)
	}
}

func TestRecorderReadsAtEveryInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		recorder := measure.Recorder{Interval: time.Second}
		reads := 0.0
		series := recorder.Track("reads", func() float64 { reads++; return reads })
		recorder.Run(ctx)
		if want := []measure.Point{{X: 0, Y: 1}, {X: 1, Y: 2}, {X: 2, Y: 3}, {X: 3, Y: 4}}; !slices.Equal(series.Points, want) {
			t.Errorf("recorded %v, want %v", series.Points, want)
		}
	})
}

func result() *measure.Result {
	r := &measure.Result{
		Title: "A title", About: "What was done.", Seed: 9, Origin: measure.Here(),
		Tables: []measure.Table{{Title: "Peers", Columns: []string{"tool", "Mbit/s"}, Rows: [][]string{{"one", "3"}}}},
	}
	r.Add("utilization", 97.123, "%")
	for _, kind := range []measure.Kind{measure.Lines, measure.Marks, measure.Steps, measure.Columns} {
		r.Charts = append(r.Charts, measure.Chart{
			File: string(kind), Title: "Chart of " + string(kind), Kind: kind, Categories: []string{"a", "b"},
			X: measure.Axis{Label: "Time [s]"}, Y: measure.Axis{Label: "Share", Max: 1},
			Series: []measure.Series{{Name: "one", Points: []measure.Point{{X: 0, Y: 0.5}, {X: 1.234567, Y: 1}}}},
		})
	}
	return r
}

func TestResultIsWrittenForMachinesAndPeople(t *testing.T) {
	folder := t.TempDir()
	want := result()
	if err := want.Write(folder); err != nil {
		t.Fatal(err)
	}
	if err := want.Draw(folder, ".png"); err != nil {
		t.Fatal(err)
	}
	got, err := measure.Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	if got.Origin != want.Origin || got.Charts[0].Series[0].Points[1] != (measure.Point{X: 1.2346, Y: 1}) {
		t.Errorf("read back %+v", got)
	}
	people := string(read(t, folder, "README.md"))
	for _, text := range []string{"# A title", "seed 9", "| utilization | 97.1 | % |", "| one | 3 |", "![Chart of lines](lines.svg)"} {
		if !strings.Contains(people, text) {
			t.Errorf("Markdown does not say %q:\n%s", text, people)
		}
	}
	for _, chart := range want.Charts {
		if svg := read(t, folder, chart.File+".svg"); !bytes.Contains(svg, []byte("Time [s]")) && chart.Kind != measure.Columns {
			t.Errorf("%s has no axis label", chart.File)
		}
		if _, err := png.Decode(bytes.NewReader(read(t, folder, chart.File+".png"))); err != nil {
			t.Errorf("%s: %v", chart.File, err)
		}
	}
}

func read(t *testing.T, folder, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestChartWithoutDataIsAnError(t *testing.T) {
	if err := (measure.Chart{}).Save(filepath.Join(t.TempDir(), "empty.svg")); err == nil {
		t.Error("an empty chart was drawn")
	}
}

func TestOriginNamesNoMachine(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	origin := measure.Here()
	text, err := json.Marshal(origin)
	if err != nil {
		t.Fatal(err)
	}
	if len(name) > 3 && bytes.Contains(text, []byte(name)) {
		t.Errorf("origin %s tells the name of this machine", text)
	}
	if origin.Cores < 1 || !strings.HasPrefix(origin.Kernel, "Linux ") {
		t.Errorf("origin %+v", origin)
	}
}
