package paper004

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/papers/experiment"
	"github.com/groupcast/groupcast/internal/algo/soma/model"
	algo "github.com/groupcast/groupcast/internal/algo/soma/paper"
	"github.com/groupcast/groupcast/services/replicator/paper"
)

// Wired is figure 8.
var Wired = experiment.Experiment{
	Paper: "004",
	Name:  "wired",
	About: "figure 8: window and throughput in a wired LAN alone, against equation (17)",
	Run:   wired,
}

const (
	wiredRuns  = 5
	paperWired = 97.0 // Mbit/s, "the maximum experimental throughput"
)

// alone is one transfer in the wired LAN.
type alone struct {
	outcome
	greatest float64 // Mbit/s with headers, from the first window of 100 to the last
}

// limit returns equation (17), for packets as the link counts them.
func limit() float64 {
	packets := model.Packets{Data: model.Bytes(onTheWire)}
	return float64(packets.MaximumThroughput(algo.DefaultMaxWindow, model.Rate(wiredRate), meanARTP) / model.Mbit)
}

func wired(ctx context.Context, options experiment.Options) (*measure.Result, error) {
	var runs []alone
	for range max(options.Runs, wiredRuns) {
		one, err := runAlone(ctx, options.Seed)
		if err != nil {
			return nil, err
		}
		options.Progress("  %.2f Mbit/s at a window of 100, equation (17) allows %.2f", one.greatest, limit())
		runs = append(runs, one)
	}
	return reportWired(options, runs), nil
}

func runAlone(ctx context.Context, seed uint64) (alone, error) {
	network := newCampus(seed, 0)
	defer network.Close()
	if err := network.Start(); err != nil {
		return alone{}, err
	}
	t := &transfer{campus: network, size: fileSize, flow: algo.Flow{Timeout: firstTimeout}}
	if err := t.run(ctx); err != nil {
		return alone{}, err
	}
	full := slices.IndexFunc(t.windows, func(w paper.Window) bool { return w.Window == algo.DefaultMaxWindow })
	if full < 0 {
		return alone{}, fmt.Errorf("the window has come to %d", t.windows[len(t.windows)-1].Window)
	}
	return alone{outcome: t.outcome, greatest: t.throughput(full, len(t.windows)-1) * onTheWire / 523}, nil
}

func reportWired(options experiment.Options, runs []alone) *measure.Result {
	ordered := slices.SortedFunc(slices.Values(runs), func(a, b alone) int { return cmp.Compare(a.greatest, b.greatest) })
	middle := ordered[len(ordered)/2]
	r := &measure.Result{
		Title: "Paper 004, figure 8", Seed: options.Seed, Origin: options.Origin,
		About: fmt.Sprintf(`A server and %d clients in a LAN; the server's link carries %v, headers of UDP and IP included. %d bytes, 512 in each packet, ARTP_max %v,
dflt_Tout %v. Throughput is that of packets with these headers, from the first window of 100 packets to the last, in %d transfers; the figure shows the one in the
middle. Every client's file was compared.`, clientsPerLAN, wiredRate, fileSize, artpMax, firstTimeout, len(runs)),
	}
	t := measure.Table{Title: "Transfers", Columns: []string{"transfer", "Mbit/s", "of equation (17)", "greatest window", "smallest after it", "repairs"}}
	for i, one := range ordered {
		greatest, least := one.extremes()
		t.Rows = append(t.Rows, []string{
			fmt.Sprint(i + 1), fmt.Sprintf("%.2f", one.greatest), fmt.Sprintf("%.1f %%", 100*one.greatest/limit()),
			fmt.Sprint(greatest), fmt.Sprint(least), fmt.Sprint(one.sent.Repairs),
		})
	}
	verdicts := measure.Table{Title: "What the paper's text says, and what is seen here", Columns: []string{"section VI, in short", "seen", "same"}}
	greatest, _ := middle.extremes()
	verdicts.Rows = [][]string{
		{"the window reaches its maximum of 100", fmt.Sprint(greatest), yes(greatest == algo.DefaultMaxWindow)},
		{
			fmt.Sprintf("the maximum throughput is around %.0f Mbit/s, where equation (17) says 97.4", paperWired),
			fmt.Sprintf("%.2f, where it says %.2f: %.1f %%", middle.greatest, limit(), 100*middle.greatest/limit()), yes(middle.greatest >= 0.97*limit()),
		},
	}
	r.Tables = []measure.Table{verdicts, t}
	r.Charts = []measure.Chart{
		{
			File: "figure8-window", Title: "Figure 8: window size evolution, wired LAN", Kind: measure.Lines,
			X: measure.Axis{Label: "Time [s]"}, Y: measure.Axis{Label: "Window size [packets]", Max: 120},
			Series: []measure.Series{middle.windowSeries("window")},
		},
		{
			File: "figure8-throughput", Title: "Figure 8: instantaneous throughput, wired LAN", Kind: measure.Lines,
			X: measure.Axis{Label: "Time [s]"}, Y: measure.Axis{Label: "Throughput [Mbit/s]", Max: 120},
			Series: []measure.Series{middle.throughputSeries("SOMA's packets", 20*time.Millisecond)},
		},
	}
	return r
}

// extremes returns the greatest window, and the least after it.
func (a alone) extremes() (greatest, least int) {
	for _, w := range a.windows {
		if w.Window > greatest {
			greatest, least = w.Window, w.Window
		}
		least = min(least, w.Window)
	}
	return greatest, least
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}
