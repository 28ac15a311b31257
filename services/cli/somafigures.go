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
	"github.com/groupcast/groupcast/internal/record"
	wire "github.com/groupcast/groupcast/internal/wire/soma/paper"
)

// figures is what is drawn, and where.
type figures struct {
	traffic
	into   string
	format string
	piece  time.Duration
}

// taking is what takes the packets that are seen.
type taking = func(capture.Packet, capture.Datagram) error

func (a *app) somaFigures() *cobra.Command {
	f := figures{traffic: traffic{stderr: a.stderr}}
	command := &cobra.Command{
		Use: "figures [FILE]", Short: "Draw window and throughput over time",
		Long:    figuresAbout,
		Example: "  groupcast soma figures transfer.pcap --into figures\n  groupcast-replicator send disk.img --lan eth0 --record transfer.json\n  groupcast soma figures transfer.json --into figures",
	}
	f.flags(command)
	command.Flags().StringVar(&f.into, "into", ".", "directory for the figures")
	command.Flags().StringVar(&f.format, "format", "svg", "svg or png")
	command.Flags().DurationVar(&f.piece, "piece", 100*time.Millisecond, "time over which a throughput is measured")
	command.RunE = func(command *cobra.Command, args []string) error {
		if f.format != "svg" && f.format != "png" || f.piece <= 0 {
			return usageError{errors.New("--format is svg or png, and --piece more than nothing")}
		}
		if len(args) != 1 || f.device != "" {
			return a.drawSeen(f, func(take taking) error { return f.each(command.Context(), args, take) })
		}
		file, closed, err := f.openFile(command.Context(), args[0])
		if err != nil {
			return err
		}
		defer closed()
		if record.Begins(file) {
			return a.drawRecord(command, f, args[0], file)
		}
		from, err := capture.NewReader(file)
		if err != nil {
			return unreadable(command.Context(), args[0], err)
		}
		return a.drawSeen(f, func(take taking) error { return f.read(command.Context(), from, take) })
	}
	return command
}

const figuresAbout = `Draw how the window and the throughput of each transfer in a capture went, or of those that pass
an interface until the command is interrupted. These are of the paper's profile: the default one
is sealed. How one of that went its sender writes itself: 'groupcast-replicator send … --record FILE'.
Such a record is drawn as well. Its sender's window grows with each answer, so there is no number of
windows, and its receivers send neither ACK nor NACK.`

// drawSeen draws the transfers in the packets of an interface or a capture.
func (a *app) drawSeen(f figures, each func(taking) error) error {
	var seen observed.Traffic
	isSealed := false
	err := each(func(_ capture.Packet, d capture.Datagram) error {
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

// drawn is what one transfer came to. A record has no windows, ACKs and NACKs.
type drawn struct {
	Name    string   `json:"name,omitempty"`
	Server  string   `json:"server"`
	Group   string   `json:"group"`
	Windows *int     `json:"windows,omitempty"`
	Largest int      `json:"largest_window"`
	DATA    int      `json:"data"`
	ACK     *int     `json:"ack,omitempty"`
	NACK    *int     `json:"nack,omitempty"`
	Repairs int      `json:"repairs"`
	Files   []string `json:"files"`
}

func (a *app) draw(f figures, transfers []*observed.Transfer, isSealed bool) error {
	switch {
	case len(transfers) == 0 && isSealed:
		return errors.New("what was seen is of the default profile, which is sealed: 'groupcast soma decode' tells its packets. Have its sender write how it goes, 'groupcast-replicator send … --record FILE', and draw that FILE; where managers have it sent, its window is the metric groupcast_replicator_window_packets")
	case len(transfers) == 0:
		return fmt.Errorf("no DATA of SOMA's on port %d was seen", f.port)
	}
	var all []drawn
	for i, t := range transfers {
		d, err := f.draw(i+1, t)
		if err != nil {
			return err
		}
		all = append(all, d)
	}
	return a.printDrawn(all)
}

func (a *app) printDrawn(all []drawn) error {
	count := func(n *int) string {
		if n == nil {
			return ""
		}
		return fmt.Sprint(*n)
	}
	return printList(a, all, []column[drawn]{
		{title: "SERVER", cell: func(d drawn) string { return d.Server }},
		{title: "GROUP", cell: func(d drawn) string { return d.Group }},
		{title: "WINDOWS", cell: func(d drawn) string { return count(d.Windows) }},
		{title: "LARGEST", cell: func(d drawn) string { return fmt.Sprint(d.Largest) }},
		{title: "DATA", cell: func(d drawn) string { return fmt.Sprint(d.DATA) }},
		{title: "ACK", cell: func(d drawn) string { return count(d.ACK) }},
		{title: "NACK", cell: func(d drawn) string { return count(d.NACK) }},
		{title: "REPAIRS", cell: func(d drawn) string { return fmt.Sprint(d.Repairs) }},
		{title: "FILES", cell: func(d drawn) string { return join(d.Files) }},
	})
}

// draw draws the two figures of a transfer.
func (f figures) draw(number int, t *observed.Transfer) (drawn, error) {
	acks, nacks, count, largest := t.Packets[wire.ACK], t.Packets[wire.NACK], 0, 0
	var windows, rates []chart.Point
	for _, w := range t.Windows() {
		windows = append(windows, chart.Point{X: w.At.Sub(t.Began()).Seconds(), Y: float64(w.Size())})
		count, largest = count+1, max(largest, w.Size())
	}
	for _, r := range t.Throughput(f.piece) {
		rates = append(rates, chart.Point{X: r.At.Sub(t.Began()).Seconds(), Y: r.Bits / 1e6})
	}
	files, err := f.save(number, windows, rates)
	return drawn{
		Server: t.Server.String(), Group: t.Group.String(), Windows: &count, Largest: largest, DATA: t.Packets[wire.Data], ACK: &acks, NACK: &nacks,
		Repairs: t.Packets[wire.RepairResponse], Files: files,
	}, err
}

// save draws windows and rates over time into files.
func (f figures) save(number int, windows, rates []chart.Point) (files []string, err error) {
	if err := os.MkdirAll(f.into, 0o755); err != nil {
		return nil, err
	}
	seconds := chart.Axis{Label: "Time [s]"}
	for _, c := range []chart.Chart{
		{File: "window", Title: "Window size evolution", Y: chart.Axis{Label: "Window size [packets]"}, Series: []chart.Series{{Name: "window", Points: windows}}},
		{File: "throughput", Title: "Instantaneous throughput", Y: chart.Axis{Label: "Throughput [Mbit/s]"}, Series: []chart.Series{{Name: "throughput", Points: rates}}},
	} {
		if len(c.Series[0].Points) == 0 {
			continue // a line needs more
		}
		c.Kind, c.X = chart.Lines, seconds
		name := filepath.Join(f.into, fmt.Sprintf("%s-%d.%s", c.File, number, f.format))
		if err := c.Save(name); err != nil {
			return files, fmt.Errorf("draw %s: %w", name, err)
		}
		files = append(files, name)
	}
	return files, nil
}
