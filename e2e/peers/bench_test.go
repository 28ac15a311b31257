package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/peers/tool"
)

// carrier is a tool that copies the file by itself, and damages a copy if told to.
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
	for _, name := range []string{"lan4", "fast4"} {
		chosen, err := choosePlaces([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := deliver(ctx, carrier{}, chosen[0], link.MiB, 1); err != nil {
			t.Errorf("%s: good copies: %v", name, err)
		}
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
		rows, err := s.compare(context.Background(), []tool.Tool{test.tool}, test.place)
		if err != nil || !strings.HasPrefix(rows[0].without, want) {
			t.Errorf("row says %q, error %v; want %q", rows, err, want)
		}
		if table := s.report(test.place, rows).Markdown(); !strings.Contains(table, "| carrier | "+want) {
			t.Errorf("the report does not say %q:\n%s", want, table)
		}
	}
}

func TestMediansAndRatios(t *testing.T) {
	s := settings{size: 10_000_000, runs: 3}
	r := row{samples: []sample{
		{took: 4e9, processor: 8e7, uplink: 2e7, landed: []time.Duration{1e9, 2e9, 4e9}},
		{took: 1e9, processor: 4e7, uplink: 1e7, landed: []time.Duration{5e8, 1e9}},
		{took: 1.6e9, processor: 4e7, uplink: 1e7, landed: []time.Duration{1e9, 1.6e9}},
	}}
	base := []sample{{took: 8e9}, {took: 4e9}, {took: 1.6e9}}
	s.summarize(&r, places[0], base) // 4 receivers, 25 Mbit/s: the line takes 3.2 s
	got := fmt.Sprintf("%.1f Mbit/s, stretch %.2f, ratio %.2f, last but one %.1f s, %.2f s/GB, %.1f copies", r.goodput, r.stretch, r.ratio, r.fast, r.cpu, r.copies)
	if want := "50.0 Mbit/s, stretch 0.50, ratio 0.50, last but one 1.0 s, 1.00 s/GB, 1.0 copies"; got != want {
		t.Errorf("medians %s, want %s", got, want)
	}
}

func TestSpecialToolsAreComparedWhereAPlaceAsksForThem(t *testing.T) {
	for _, p := range places {
		var names []string
		for _, chosen := range p.among(tool.All()) {
			names = append(names, chosen.Name())
		}
		if hashes := slices.Contains(names, hashing[0]); hashes != slices.Contains(p.tools, hashing[0]) {
			t.Errorf("%s compares %v", p.name, names)
		}
		if slices.Contains(names, changes[0]) != p.directory {
			t.Errorf("%s compares %v", p.name, names)
		}
		ours := slices.Contains(names, "groupcast (tls)") || slices.Contains(names, "groupcast (multicast)")
		if !ours || len(p.tools) > 0 && len(names) != len(p.tools) {
			t.Errorf("%s compares %v", p.name, names)
		}
	}
}
