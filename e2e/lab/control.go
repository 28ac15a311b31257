package lab

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/groupcast/groupcast/e2e/lab/link"
)

// Way is one direction of a link.
type Way struct {
	link *Link
	side int
}

// From is the direction that starts at node.
func (w *Link) From(node Node) Way {
	for side, end := range w.ends {
		if end.owner == node {
			return Way{link: w, side: side}
		}
	}
	panic(fmt.Sprintf("lab: link %s does not end at %s", w.Name(), node.Name()))
}

// Ways are both directions, the one from the first node first.
func (w *Link) Ways() [2]Way { return [2]Way{{w, 0}, {w, 1}} }

// Name tells where it goes.
func (d Way) Name() string {
	return d.link.ends[d.side].owner.Name() + "→" + d.link.ends[1-d.side].owner.Name()
}

// Change changes the shape while packets flow. The MTU alone is fixed.
func (d Way) Change(change func(*link.Shape)) error {
	way, err := d.direction()
	if err != nil {
		return err
	}
	return way.Reshape(change)
}

// Step changes the rate.
func (d Way) Step(rate link.Rate) error {
	return d.Change(func(s *link.Shape) { s.Rate = rate })
}

// Cut loses everything from now on, and what is under way.
func (d Way) Cut() error { return d.Change(func(s *link.Shape) { s.Cut = true }) }

// Heal ends Cut.
func (d Way) Heal() error { return d.Change(func(s *link.Shape) { s.Cut = false }) }

// Shape is the present shape.
func (d Way) Shape() link.Shape {
	if way, err := d.direction(); err == nil {
		return way.Shape()
	}
	return d.link.initial[d.side]
}

// Read tells counts and queue. Of a plain link it tells what the kernel counts:
// the frames that were carried, with their Ethernet headers.
func (d Way) Read() link.Reading {
	if way, err := d.direction(); err == nil {
		return way.Read()
	}
	return d.kernelReading()
}

func (d Way) kernelReading() link.Reading {
	from := d.link.ends[d.side]
	if from.space() == nil {
		return link.Reading{}
	}
	var sent link.Tally
	_ = within(from.space(), func(handle *netlink.Handle) error { // a device that is gone has sent nothing
		device, err := handle.LinkByName(from.device)
		if err != nil || device.Attrs().Statistics == nil {
			return err
		}
		count := device.Attrs().Statistics
		sent = link.Tally{Packets: int64(count.TxPackets), Bytes: link.Bytes(count.TxBytes)}
		return nil
	})
	return link.Reading{Count: link.Count{Offered: sent, Carried: sent, Delivered: sent}}
}

// Lateness tells how well the emulator kept its timetable.
func (d Way) Lateness() link.Lateness {
	if way, err := d.direction(); err == nil {
		return way.Lateness()
	}
	return link.Lateness{}
}

func (d Way) direction() (*link.Direction, error) {
	if way := d.link.ways[d.side]; way != nil {
		return way, nil
	}
	return nil, fmt.Errorf("link %s is not running as an emulated link", d.link.Name())
}

// Cut loses everything in both directions.
func (w *Link) Cut() error { return w.both(Way.Cut) }

// Heal ends Cut in both directions.
func (w *Link) Heal() error { return w.both(Way.Heal) }

// Step changes the rate of both directions.
func (w *Link) Step(rate link.Rate) error {
	return w.both(func(d Way) error { return d.Step(rate) })
}

func (w *Link) both(act func(Way) error) error {
	for _, way := range w.Ways() {
		if err := act(way); err != nil {
			return err
		}
	}
	return nil
}
