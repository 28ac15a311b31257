package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/groupcast/groupcast/internal/algo/soma/observed"
	"github.com/groupcast/groupcast/internal/capture"
	"github.com/groupcast/groupcast/internal/chart"
	wire "github.com/groupcast/groupcast/internal/wire/soma/paper"
)

// figures is what is drawn, and where.
type figures struct {
	traffic
	into   string
	format string
	piece  time.Duration
}

func (a *app) somaFigures() *cobra.Command {
	f := figures{traffic: traffic{stderr: a.stderr}}
	command := &cobra.Command{
		Use: "figures [FILE]", Short: "Draw window and throughput over time",
		Long:    "Draw how the window and the throughput of each transfer in a capture went, or of those that pass\nan interface until the command is interrupted. They are of the paper's profile: the default one\nis sealed, and its senders have their window as a metric.",
		Example: "  groupcast soma figures transfer.pcap --into figures",
	}
	f.flags(command)
	command.Flags().StringVar(&f.into, "into", ".", "directory for the figures")
	command.Flags().StringVar(&f.format, "format", "svg", "svg or png")
	command.Flags().DurationVar(&f.piece, "piece", 100*time.Millisecond, "time over which a throughput is measured")
	command.RunE = func(command *cobra.Command, args []string) error {
		if f.format != "svg" && f.format != "png" || f.piece <= 0 {
			return usageError{errors.New("--format is svg or png, and --piece more than nothing")}
		}
		var seen observed.Traffic
		isSealed := false
		err := f.each(command.Context(), args, func(_ capture.Packet, d capture.Datagram) error {
			if p, err := wire.Parse(d.Payload); err == nil {
				seen.See(d.At, d.From, d.To, p)
			} else if isOfServer(d.Payload) {
				isSealed = true
			}
			return nil
		})
		if err != nil && !errors.Is(err, capture.ErrCut) && !errors.Is(err, errSnapped) {
			return err
		}
		return errors.Join(a.draw(f, seen.Transfers(), isSealed), err)
	}
	return command
}

// drawn is what one transfer came to.
type drawn struct {
	Server  string   `json:"server"`
	Group   string   `json:"group"`
	Windows int      `json:"windows"`
	Largest int      `json:"largest_window"`
	DATA    int      `json:"data"`
	ACK     int      `json:"ack"`
	NACK    int      `json:"nack"`
	Repairs int      `json:"repairs"`
	Files   []string `json:"files"`
}

func (a *app) draw(f figures, transfers []*observed.Transfer, isSealed bool) error {
	switch {
	case len(transfers) == 0 && isSealed:
		return errors.New("what was seen is of the default profile, which is sealed: 'groupcast soma decode' tells its packets, and its sender's window is the metric groupcast_replicator_window_packets")
	case len(transfers) == 0:
		return fmt.Errorf("no DATA of SOMA's on port %d was seen", f.port)
	}
	if err := os.MkdirAll(f.into, 0o755); err != nil {
		return err
	}
	var all []drawn
	for i, t := range transfers {
		d, err := f.draw(i+1, t)
		if err != nil {
			return err
		}
		all = append(all, d)
	}
	return printList(a, all, []column[drawn]{
		{title: "SERVER", cell: func(d drawn) string { return d.Server }},
		{title: "GROUP", cell: func(d drawn) string { return d.Group }},
		{title: "WINDOWS", cell: func(d drawn) string { return fmt.Sprint(d.Windows) }},
		{title: "LARGEST", cell: func(d drawn) string { return fmt.Sprint(d.Largest) }},
		{title: "DATA", cell: func(d drawn) string { return fmt.Sprint(d.DATA) }},
		{title: "ACK", cell: func(d drawn) string { return fmt.Sprint(d.ACK) }},
		{title: "NACK", cell: func(d drawn) string { return fmt.Sprint(d.NACK) }},
		{title: "REPAIRS", cell: func(d drawn) string { return fmt.Sprint(d.Repairs) }},
		{title: "FILES", cell: func(d drawn) string { return join(d.Files) }},
	})
}

// draw draws the two figures of a transfer.
func (f figures) draw(number int, t *observed.Transfer) (drawn, error) {
	windows, rates := chart.Series{Name: "window"}, chart.Series{Name: "throughput"}
	d := drawn{Server: t.Server.String(), Group: t.Group.String(), DATA: t.Packets[wire.Data], ACK: t.Packets[wire.ACK], NACK: t.Packets[wire.NACK], Repairs: t.Packets[wire.RepairResponse]}
	for _, w := range t.Windows() {
		windows.Points = append(windows.Points, chart.Point{X: w.At.Sub(t.Began()).Seconds(), Y: float64(w.Size())})
		d.Windows, d.Largest = d.Windows+1, max(d.Largest, w.Size())
	}
	for _, r := range t.Throughput(f.piece) {
		rates.Points = append(rates.Points, chart.Point{X: r.At.Sub(t.Began()).Seconds(), Y: r.Bits / 1e6})
	}
	seconds := chart.Axis{Label: "Time [s]"}
	for _, c := range []chart.Chart{
		{File: fmt.Sprintf("window-%d", number), Title: "Window size evolution", Kind: chart.Lines, X: seconds, Y: chart.Axis{Label: "Window size [packets]"}, Series: []chart.Series{windows}},
		{File: fmt.Sprintf("throughput-%d", number), Title: "Instantaneous throughput", Kind: chart.Lines, X: seconds, Y: chart.Axis{Label: "Throughput [Mbit/s]"}, Series: []chart.Series{rates}},
	} {
		if len(c.Series[0].Points) == 0 {
			continue // a line needs more
		}
		name := filepath.Join(f.into, c.File+"."+f.format)
		if err := c.Save(name); err != nil {
			return d, fmt.Errorf("draw %s: %w", name, err)
		}
		d.Files = append(d.Files, name)
	}
	return d, nil
}
