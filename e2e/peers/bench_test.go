package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/peers/tool"
)

// carrier is a tool that carries the file by hand, and drops it if told.
type carrier struct {
	damages  string // name of the receiver whose copy is wrong
	programs []string
}

func (carrier) Name() string                             { return "carrier" }
func (c carrier) Programs() []string                     { return c.programs }
func (carrier) Multicast() bool                          { return true }
func (carrier) Prepare(context.Context, *tool.Job) error { return nil }

func (c carrier) Deliver(_ context.Context, j *tool.Job) error {
	content, err := os.ReadFile(j.Disks[j.Sender].Outside(tool.FileName))
	if err != nil {
		return err
	}
	for _, receiver := range j.Receivers {
		copied := append([]byte(nil), content...)
		if receiver.Name() == c.damages {
			copied[len(copied)/2] ^= 1
		}
		if err := os.WriteFile(j.Disks[receiver].Outside(tool.FileName), copied, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func TestEveryCopyIsVerified(t *testing.T) {
	labtest.Require(t)
	ctx := context.Background()
	if _, err := deliver(ctx, carrier{}, places[0], link.MiB, 1); err != nil {
		t.Errorf("good copies: %v", err)
	}
	_, err := deliver(ctx, carrier{damages: "receiver3"}, places[0], link.MiB, 1)
	if err == nil || !strings.Contains(err.Error(), "receiver3") {
		t.Errorf("a copy with one wrong bit: %v", err)
	}
}

func TestRowSaysWhyNothingWasMeasured(t *testing.T) {
	labtest.Require(t)
	s := settings{size: link.MiB, runs: 1}
	for want, test := range map[string]struct {
		tool  tool.Tool
		place place
	}{
		"missing: no-such-program":                          {carrier{programs: []string{"no-such-program"}}, places[0]},
		"not possible: multicast does not pass the routers": {carrier{}, places[2]},
		"failed in run 1: verify the copy at receiver1":     {carrier{damages: "receiver1"}, places[0]},
	} {
		r, err := s.compare(context.Background(), test.tool, test.place)
		if err != nil || !strings.HasPrefix(r.without, want) {
			t.Errorf("row says %q, error %v; want %q", r.without, err, want)
		}
		if table := s.report(test.place, []row{r}).Markdown(); !strings.Contains(table, "| carrier | "+want) {
			t.Errorf("the report does not say %q:\n%s", want, table)
		}
	}
}

func TestMediansAndRatios(t *testing.T) {
	s := settings{size: 10_000_000, runs: 3}
	samples := []sample{{took: 4e9, processor: 8e7, uplink: 2e7}, {took: 1e9, processor: 4e7, uplink: 1e7}, {took: 1.6e9, processor: 4e7, uplink: 1e7}}
	var r row
	s.summarize(&r, places[0], samples) // 4 receivers, 100 Mbit/s: the line needs 0.8 s
	got := fmt.Sprintf("%.1f Mbit/s, stretch %.2f, %.2f s/GB, %.1f copies", r.goodput, r.stretch, r.cpu, r.copies)
	if want := "50.0 Mbit/s, stretch 2.00, 1.00 s/GB, 1.0 copies"; got != want {
		t.Errorf("medians %s, want %s", got, want)
	}
}
