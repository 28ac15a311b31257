package paper004

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/papers/experiment"
	algo "github.com/groupcast/groupcast/internal/algo/soma/paper"
)

// Congested is table I and figures 6 and 7.
var Congested = experiment.Experiment{
	Paper: "004",
	Name:  "congested",
	About: "table I, figures 6 and 7: window and throughput where slow LANs are behind the wired one",
	Run:   congested,
}

// tableSize is how many bytes are sent for the cells of table I that no figure shows: a quarter of
// the paper's, in which the window is steady for some 13 s.
const tableSize = 2_500_000

// atOnce is how many clients there are at a time, in networks of their own: each gets some 370 packets per second.
const atOnce = 40

// paperTable is table I, theory and simulation: by N_C2, for 80 to 120 ms.
var paperTable = [][]int{{29, 33, 37, 40, 44}, {28, 32, 36, 39, 43}, {27, 31, 35, 38, 42}, {26, 30, 34, 37, 41}}

// figure6 gives the values around which, according to the paper, the window oscillates there (§VI).
// They differ from equation (16) and table I.
var figure6 = []int{29, 32, 36, 39, 43}

// cell is a cell of table I.
type cell struct {
	slowLANs int
	timeout  time.Duration
}

func (c cell) String() string { return fmt.Sprintf("N_C2 = %d, dflt_Tout = %v", c.slowLANs, c.timeout) }

func (c cell) clients() int64 { return int64(clientsPerLAN * (c.slowLANs + 1)) }

func (c cell) theory() int { return path(c.slowLANs).SteadyWindow(c.timeout, meanARTP) }

func cells() (list []cell) {
	for n := 1; n <= len(paperTable); n++ {
		for timeout := firstTimeout; timeout <= lastTimeout; timeout += timeoutStep {
			list = append(list, cell{n, timeout})
		}
	}
	return list
}

func congested(ctx context.Context, options experiment.Options) (*measure.Result, error) {
	measured := map[cell]outcome{}
	var guard sync.Mutex
	var wrong []error
	places := semaphore.NewWeighted(atOnce)
	var running sync.WaitGroup
	for _, c := range cells() {
		if err := places.Acquire(ctx, c.clients()); err != nil {
			wrong = append(wrong, err)
			break
		}
		running.Go(func() {
			defer places.Release(c.clients())
			o, err := c.measure(ctx, options.Seed)
			guard.Lock()
			defer guard.Unlock()
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%v: %w", c, err))
				return
			}
			options.Progress("  %v: W_T is %d, theory %d; %.3f Mbit/s", c, o.steadyWindow(), c.theory(), o.throughput(len(o.windows)/2, len(o.windows)-1))
			measured[c] = o
		})
	}
	running.Wait()
	if err := errors.Join(wrong...); err != nil {
		return nil, err
	}
	return reportCongested(options, measured), nil
}

// measure sends a file through the cell's number of slow LANs.
func (c cell) measure(ctx context.Context, seed uint64) (outcome, error) {
	network := newCampus(seed, c.slowLANs)
	defer network.Close()
	if err := network.Start(); err != nil {
		return outcome{}, err
	}
	size := tableSize
	if c.slowLANs == 1 {
		size = fileSize
	}
	t := &transfer{campus: network, size: size, flow: algo.Flow{Timeout: c.timeout}}
	err := t.run(ctx)
	return t.outcome, err
}

func reportCongested(options experiment.Options, measured map[cell]outcome) *measure.Result {
	r := &measure.Result{
		Title: "Paper 004, table I and figures 6 and 7", Seed: options.Seed, Origin: options.Origin,
		About: fmt.Sprintf(`A server and %d clients in a LAN of %v, and one to four LANs in a row behind it, each behind a router that routes multicast, of
%.2f Mbit/s of SOMA's packets (%v with the headers of UDP and IP) and %d clients. The paper profile over the kernel's UDP; %d bytes in each packet, ARTP_max %v, α = %v, β = %v (the paper does not tell),
routers hold %d packets. %d bytes for N_C2 = 1, %d for the others. Every client's file was compared.
W_T is the window before that for which the timer expired, the most frequent in the second half of a transfer.`,
			clientsPerLAN, wiredRate, wirelessRate, slowRate, clientsPerLAN, 512, artpMax, algo.DefaultAlpha, float64(algo.DefaultBeta), routerBuffer, fileSize, tableSize),
		Tables: []measure.Table{tableI(measured), throughputs(measured), repairs(measured)},
	}
	windows := measure.Chart{
		File: "figure6", Title: "Figure 6: window size evolution", Kind: measure.Lines,
		X: measure.Axis{Label: "Time [s]"}, Y: measure.Axis{Label: "Window size [packets]", Max: 50},
	}
	rates := measure.Chart{
		File: "figure7", Title: "Figure 7: instantaneous throughput", Kind: measure.Lines,
		X: measure.Axis{Label: "Time [s]"}, Y: measure.Axis{Label: "Throughput [Mbit/s]", Max: 3},
	}
	for timeout := firstTimeout; timeout <= lastTimeout; timeout += timeoutStep {
		o := measured[cell{1, timeout}]
		windows.Series = append(windows.Series, thin(o.windowSeries(fmt.Sprint(timeout)), 700))
		if timeout != 90*time.Millisecond && timeout != 110*time.Millisecond { // the three that the paper shows
			rates.Series = append(rates.Series, o.throughputSeries(fmt.Sprint(timeout), time.Second/2))
		}
	}
	r.Charts = []measure.Chart{windows, rates}
	return r
}

func tableI(measured map[cell]outcome) measure.Table {
	t := measure.Table{Title: "Table I: W_T measured (by equation (16), which is the paper's table)", Columns: []string{"N_C2"}}
	for timeout := firstTimeout; timeout <= lastTimeout; timeout += timeoutStep {
		t.Columns = append(t.Columns, fmt.Sprint(timeout))
	}
	t.Columns = append(t.Columns, "all within 1")
	for n := 1; n <= len(paperTable); n++ {
		row, within := []string{fmt.Sprint(n)}, "yes"
		for timeout := firstTimeout; timeout <= lastTimeout; timeout += timeoutStep {
			c := cell{n, timeout}
			got, want := measured[c].steadyWindow(), c.theory()
			row = append(row, fmt.Sprintf("%d (%d)", got, want))
			if math.Abs(float64(got-want)) > 1 {
				within = "no"
			}
		}
		t.Rows = append(t.Rows, append(row, within))
	}
	return t
}

func throughputs(measured map[cell]outcome) measure.Table {
	t := measure.Table{Title: "Throughput of the second half with one slow LAN, Mbit/s", Columns: []string{"dflt_Tout", "measured", "equation (18)", "window, mean", "figure 6's text has"}}
	for i := range figure6 {
		c := cell{1, firstTimeout + time.Duration(i)*timeoutStep}
		o := measured[c]
		half, last := len(o.windows)/2, len(o.windows)-1
		theory := path(1).CongestedThroughput(c.theory(), path(1).C1, c.timeout)
		mean := o.windowSeries("").Between(o.since(o.windows[half].At), math.Inf(1)).Mean()
		t.Rows = append(t.Rows, []string{
			fmt.Sprint(c.timeout), fmt.Sprintf("%.3f", o.throughput(half, last)), fmt.Sprintf("%.3f", float64(theory)/1e6),
			measure.Short(mean), fmt.Sprint(figure6[i]),
		})
	}
	return t
}

func repairs(measured map[cell]outcome) measure.Table {
	t := measure.Table{Title: "Repairs", Columns: []string{"transfer", "packets", "windows", "answers to REPAIR-REQUESTs", "seconds"}}
	for _, c := range cells() {
		o := measured[c]
		t.Rows = append(t.Rows, []string{c.String(), fmt.Sprint(o.sent.Packets), fmt.Sprint(o.sent.Windows), fmt.Sprint(o.sent.Repairs), measure.Short(o.took.Seconds())})
	}
	return t
}
