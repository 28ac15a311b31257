package paper004

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/papers/experiment"
	algo "github.com/groupcast/groupcast/internal/algo/soma/paper"
)

// Joined is figure 9.
var Joined = experiment.Experiment{
	Paper: "004",
	Name:  "joined",
	About: "figure 9: the slow LAN joins in the middle of the transfer",
	Run:   joined,
}

func joined(ctx context.Context, options experiment.Options) (*measure.Result, error) {
	network := newCampus(options.Seed, 1)
	defer network.Close()
	if err := network.Start(); err != nil {
		return nil, err
	}
	t := &transfer{campus: network, size: fileSize, flow: algo.Flow{Timeout: firstTimeout}, late: 1}
	if err := t.run(ctx); err != nil {
		return nil, err
	}
	return reportJoined(options, t), nil
}

// settled returns how long after the late LAN came the window was first within one packet of what equation (16) gives.
func (o outcome) settled(want int) (after time.Duration, is bool) {
	for _, w := range o.windows {
		if w.At.After(o.joined) && math.Abs(float64(w.Window-want)) <= 1 {
			return w.At.Sub(o.joined), true
		}
	}
	return 0, false
}

func reportJoined(options experiment.Options, t *transfer) *measure.Result {
	want := cell{1, firstTimeout}.theory()
	before, last := 0, len(t.windows)-1
	first := last
	for i, w := range t.windows {
		if w.At.Before(t.joined) {
			before = max(before, w.Window)
		} else {
			first = min(first, i)
		}
	}
	after, is := t.settled(want)
	second := first + (last-first)/2
	marked := uint64(0)
	for _, one := range t.got[clientsPerLAN:] {
		marked = max(marked, one.Marked)
	}
	mean := t.windowSeries("").Between(t.since(t.windows[second].At), math.Inf(1)).Mean()
	r := &measure.Result{
		Title: "Paper 004, figure 9", Seed: options.Seed, Origin: options.Origin,
		About: fmt.Sprintf(`The server and %d clients in a LAN of %v; when half of the %d bytes is sent, %d clients of a LAN of %.2f Mbit/s behind a router join, and the
router begins to pass the group on. The server was not told of that LAN: it takes part since something came from there. dflt_Tout %v, α = %v, β = %v; the router holds
%d packets. What came before the clients joined, and what the router dropped, they get in the second phase. Every client's file was compared.`,
			clientsPerLAN, wiredRate, fileSize, clientsPerLAN, wirelessRate, firstTimeout, algo.DefaultAlpha, float64(algo.DefaultBeta), routerBuffer),
	}
	r.Add("greatest window before the slow LAN came", float64(before), "packets")
	r.Add("mean window in the second half of what was left", mean, "packets")
	r.Add("equation (16)", float64(want), "packets")
	adapted := fmt.Sprintf("never to within one of %d packets", want)
	if is {
		r.Add("until the window was within one packet of that", after.Seconds(), "s")
		adapted = fmt.Sprintf("%d packets in %.1f s", want, after.Seconds())
	}
	r.Add("throughput in the second half of what was left", t.throughput(second, last), "Mbit/s")
	r.Add("packets that a client of the slow LAN missed in the multicast phase, the most", float64(marked), "")
	r.Add("answers to REPAIR-REQUESTs", float64(t.sent.Repairs), "")
	r.Add("the whole, repairs and all", t.took.Seconds(), "s")
	r.Tables = []measure.Table{{
		Title: "What the paper's text says, and what is seen here", Columns: []string{"section VI, in short", "seen", "same"},
		Rows: [][]string{
			{"with wired clients alone the window reaches 100", fmt.Sprint(before), yes(before == algo.DefaultMaxWindow)},
			{"it adapts quickly to the new situation", adapted, yes(is && after < 5*time.Second)},
			{"both networks are in step then", fmt.Sprintf("a mean window of %.1f", mean), yes(math.Abs(mean-float64(want)) <= 2)},
			{"lost packets are recovered in the error correction phase", fmt.Sprintf("all %d clients have the file", len(t.got)), "yes"},
		},
	}}
	r.Charts = []measure.Chart{
		{
			File: "figure9", Title: "Figure 9: window size evolution; the wireless LAN joins in the middle", Kind: measure.Lines,
			X: measure.Axis{Label: "Time [s]"}, Y: measure.Axis{Label: "Window size [packets]", Max: 120},
			Series: []measure.Series{thin(t.windowSeries("window"), 1000)},
		},
		{
			File: "figure9-start", Title: "Figure 9, its first four seconds", Kind: measure.Lines,
			X: measure.Axis{Label: "Time [s]"}, Y: measure.Axis{Label: "Window size [packets]", Max: 120},
			Series: []measure.Series{t.windowSeries("window").Between(0, 4)},
		},
	}
	return r
}
