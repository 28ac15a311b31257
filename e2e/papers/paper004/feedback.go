package paper004

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/papers/experiment"
	"github.com/groupcast/groupcast/internal/algo/soma/model"
	algo "github.com/groupcast/groupcast/internal/algo/soma/paper"
	"github.com/groupcast/groupcast/services/replicator/paper"
)

// Feedback is equation (9).
var Feedback = experiment.Experiment{
	Paper: "004",
	Name:  "feedback",
	About: "equation (9): the mean ARTP of 1 to 64 clients, over 1,000 windows each",
	Run:   feedback,
}

const (
	feedbackWindows = 1000
	// smallWindow keeps the packets few: an ARTP does not depend on them.
	smallWindow = 2
	// stretched is by what factor the paper's ARTP_max is enlarged, so that 64 programs on two
	// processors are fast enough in comparison.
	stretched = 100
)

var crowds = []int{1, 2, 4, 8, 16, 32, 64}

// crowd is what a number of clients did.
type crowd struct {
	model.Feedback
	drawn float64 // mean of the least ARTP, in units of ARTP_max
	sent  float64 // mean time at which the first ACK was sent, in the same units
	acks  float64 // how many were sent for each window
}

func feedback(ctx context.Context, options experiment.Options) (*measure.Result, error) {
	series := map[time.Duration][]crowd{}
	for _, most := range []time.Duration{artpMax, stretched * artpMax} {
		for _, clients := range crowds {
			c, err := gather(ctx, options.Seed, model.Feedback{Clients: clients, Max: most})
			if err != nil {
				return nil, fmt.Errorf("%d clients, ARTP_max %v: %w", clients, most, err)
			}
			options.Progress("  %d clients, ARTP_max %v: drawn %.4f, sent %.4f, equation (9) %.4f; %.2f ACKs a window", clients, most, c.drawn, c.sent, c.theory(), c.acks)
			series[most] = append(series[most], c)
		}
	}
	return reportFeedback(options, series), nil
}

// theory returns equation (9) in units of ARTP_max.
func (c crowd) theory() float64 { return float64(c.Mean()) / float64(c.Max) }

// gather makes the clients of one LAN confirm the windows of a transfer.
func gather(ctx context.Context, seed uint64, f model.Feedback) (crowd, error) {
	network := newCrowd(seed, f.Clients)
	defer network.Close()
	if err := network.Start(); err != nil {
		return crowd{}, err
	}
	var guard sync.Mutex
	competitions := map[uint32][]paper.Competition{}
	t := &transfer{
		campus: network, size: (feedbackWindows*smallWindow - 1) * 512, artpMax: f.Max,
		flow: algo.Flow{Timeout: max(firstTimeout, 3*f.Max), MaxWindow: smallWindow},
		competed: func(_ int, c paper.Competition) {
			guard.Lock()
			defer guard.Unlock()
			competitions[c.SN] = append(competitions[c.SN], c)
		},
	}
	if err := t.run(ctx); err != nil {
		return crowd{}, err
	}
	return sum(f, competitions), nil
}

// sum takes from each window the client with the least ARTP, and the one whose ACK left first.
func sum(f model.Feedback, competitions map[uint32][]paper.Competition) crowd {
	c := crowd{Feedback: f}
	windows, confirmed := 0, 0
	for _, all := range competitions {
		drawn, sent := f.Max, time.Duration(-1)
		for _, one := range all {
			drawn = min(drawn, one.Due.Sub(one.Heard))
			if one.Sent.IsZero() {
				continue
			}
			c.acks++
			if took := one.Sent.Sub(one.Heard); sent < 0 || took < sent {
				sent = took
			}
		}
		windows++
		c.drawn += float64(drawn) / float64(f.Max)
		if sent >= 0 {
			confirmed++
			c.sent += float64(sent) / float64(f.Max)
		}
	}
	c.drawn, c.sent, c.acks = c.drawn/float64(windows), c.sent/float64(confirmed), c.acks/float64(windows)
	return c
}

func reportFeedback(options experiment.Options, series map[time.Duration][]crowd) *measure.Result {
	r := &measure.Result{
		Title: "Paper 004, equation (9)", Seed: options.Seed, Origin: options.Origin,
		About: fmt.Sprintf(`1 to 64 clients in one LAN of plain cables confirm some %d windows of a transfer, of %d packets each, with the paper's ARTP_max of %v and with %d times that.
"Drawn" is the least of what the clients of a window drew; "sent" is when the first ACK left, counted at its client from when the last packet of the window was taken from the socket. What
is between the two is the time that 64 programs need on two processors, which is nothing to an ARTP_max of %v and much to one of %v.`,
			feedbackWindows, smallWindow, artpMax, stretched, stretched*artpMax, artpMax),
	}
	for _, most := range []time.Duration{artpMax, stretched * artpMax} {
		t := measure.Table{Title: fmt.Sprintf("ARTP_max %v: means in units of it", most), Columns: []string{"clients", "equation (9)", "drawn", "sent", "ACKs for each window"}}
		theory, drawn, sent := measure.Series{Name: "equation (9)"}, measure.Series{Name: "drawn"}, measure.Series{Name: "sent"}
		for _, c := range series[most] {
			t.Rows = append(t.Rows, []string{fmt.Sprint(c.Clients), fmt.Sprintf("%.4f", c.theory()), fmt.Sprintf("%.4f", c.drawn), fmt.Sprintf("%.4f", c.sent), fmt.Sprintf("%.2f", c.acks)})
			x := float64(c.Clients)
			theory.Points = append(theory.Points, measure.Point{X: x, Y: c.theory()})
			drawn.Points = append(drawn.Points, measure.Point{X: x, Y: c.drawn})
			sent.Points = append(sent.Points, measure.Point{X: x, Y: c.sent})
		}
		r.Tables = append(r.Tables, t)
		r.Charts = append(r.Charts, measure.Chart{
			File: fmt.Sprintf("artp-%dus", most.Microseconds()), Title: fmt.Sprintf("Mean ARTP, ARTP_max %v", most), Kind: measure.Marks,
			X: measure.Axis{Label: "Clients"}, Y: measure.Axis{Label: "Mean ARTP [ARTP_max]", Max: 1}, Series: []measure.Series{theory, drawn, sent},
		})
	}
	return r
}
