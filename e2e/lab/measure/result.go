package measure

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/groupcast/groupcast/e2e/lab/link"
)

// Result is all that one experiment has to say.
type Result struct {
	Title    string  `json:"title"`
	About    string  `json:"about"` // what was done, in Markdown
	Seed     uint64  `json:"seed"`
	Origin   Origin  `json:"origin"`
	Values   []Value `json:"values,omitempty"`
	Tables   []Table `json:"tables,omitempty"`
	Links    []Way   `json:"links,omitempty"`
	Programs []Usage `json:"programs,omitempty"`
	Flows    []Flow  `json:"flows,omitempty"`
	Charts   []Chart `json:"charts,omitempty"`
}

// Value is one figure.
type Value struct {
	Name   string  `json:"name"`
	Number float64 `json:"number"`
	Unit   string  `json:"unit"`
}

// Table is figures in rows; the first column names the row.
type Table struct {
	Title   string     `json:"title"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// Way is one direction of a link over the whole experiment.
type Way struct {
	Name      string     `json:"name"`
	Count     link.Count `json:"count"`
	MeanQueue float64    `json:"mean_queue_packets"`
	Late99    float64    `json:"late_99_percent_microseconds"` // of the emulator itself
	LateWorst float64    `json:"late_worst_microseconds"`
}

// Usage is what one program consumed.
type Usage struct {
	Name       string     `json:"name"`
	Host       string     `json:"host"`
	Processor  float64    `json:"processor_seconds"`
	PeakMemory link.Bytes `json:"peak_memory_bytes"`
}

// Flow is one connection's throughput over time.
type Flow struct {
	Name       string     `json:"name"`
	Congestion string     `json:"congestion_control,omitempty"`
	Bytes      link.Bytes `json:"bytes"`
	Throughput Series     `json:"throughput_mbit"`
}

// Add appends a value.
func (r *Result) Add(name string, number float64, unit string) {
	r.Values = append(r.Values, Value{Name: name, Number: number, Unit: unit})
}

// Write puts result.json, README.md and the charts as SVG into a folder.
func (r *Result) Write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	text, err := json.Marshal(r) // long lines, but a quarter of the size
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	files := map[string][]byte{"result.json": append(text, '\n'), "README.md": []byte(r.Markdown())}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return fmt.Errorf("write result: %w", err)
		}
	}
	return r.Draw(folder, ".svg")
}

// Read reads a result that Write has written.
func Read(folder string) (*Result, error) {
	text, err := os.ReadFile(filepath.Join(folder, "result.json"))
	if err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	r := &Result{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read result of %s: %w", folder, err)
	}
	return r, nil
}

// Draw puts the charts into a folder, as ".svg" or ".png".
func (r *Result) Draw(folder, extension string) error {
	for _, chart := range r.Charts {
		if err := chart.Save(filepath.Join(folder, chart.File+extension)); err != nil {
			return fmt.Errorf("draw %s: %w", chart.File, err)
		}
	}
	return nil
}
