package cli

import (
	"bufio"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/groupcast/groupcast/internal/chart"
	"github.com/groupcast/groupcast/internal/record"
)

// drawRecord draws what a sender of the default profile has written of how it went.
func (a *app) drawRecord(command *cobra.Command, f figures, name string, from *bufio.Reader) error {
	for _, flag := range []string{"port", "count"} {
		if command.Flags().Changed(flag) {
			return usageError{fmt.Errorf("--%s: %s is the record of a sender, and has no packets; leave it out", flag, name)}
		}
	}
	r, err := record.Read(from)
	if command.Context().Err() != nil && f.isFile {
		return errInterrupted
	}
	if err != nil {
		err = fmt.Errorf("read %s: %w", name, err)
	}
	switch {
	case err != nil && !errors.Is(err, record.ErrCut) && !errors.Is(err, record.ErrBroken):
		return err
	case len(r.Samples) == 0:
		return errors.Join(fmt.Errorf("%s says of no packet that it was sent", name), err)
	}
	d, drawing := f.drawRecord(r)
	if drawing != nil {
		return drawing
	}
	return errors.Join(a.printDrawn([]drawn{d}), err)
}

func (f figures) drawRecord(r record.Record) (drawn, error) {
	var windows []chart.Point
	largest := 0
	for _, s := range r.Samples {
		windows = append(windows, chart.Point{X: s.Seconds, Y: float64(s.Window)})
		largest = max(largest, s.Window)
	}
	last := r.Samples[len(r.Samples)-1]
	files, err := f.save(1, windows, throughput(r.Samples, f.piece))
	return drawn{
		Name: r.Name, Server: r.Server, Group: r.Group, Largest: largest, DATA: int(last.Packets - last.Repairs), Repairs: int(last.Repairs), Files: files,
	}, err
}

// throughput is what each piece of time carried, in Mbit/s: from one sample to the next that is a piece later, or is the last.
func throughput(samples []record.Sample, piece time.Duration) []chart.Point {
	var sent chart.Series
	until := 0.0
	for i, s := range samples {
		if i == 0 || i == len(samples)-1 || s.Seconds >= until {
			sent.Points = append(sent.Points, chart.Point{X: s.Seconds, Y: float64(s.Bytes)})
			until = s.Seconds + piece.Seconds()
		}
	}
	rates := sent.Slope(8e-6).Points
	if len(rates) > 0 { // that of the first piece holds from its beginning on
		rates = append([]chart.Point{{X: sent.Points[0].X, Y: rates[0].Y}}, rates...)
	}
	return rates
}
