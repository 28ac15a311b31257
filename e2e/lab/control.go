package lab

import (
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

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

// Read tells counts and queue. Of a plain link it tells what the kernel counts: the frames that
// were carried, with their Ethernet headers; of one by the kernel, the packets that were carried and those that
// were lost behind it, which count as large as the carried are in the mean. Of what had no room before it, it tells nothing.
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
		if d.link.byKernel {
			sent.Bytes -= link.Bytes(ethernetHeader * sent.Packets)
		}
		return nil
	})
	count := link.Count{Offered: sent, Carried: sent, Delivered: sent}
	if d.link.byKernel && sent.Packets > 0 {
		lost := d.link.ends[1-d.side].lost()
		count.Lost = link.Tally{Packets: lost, Bytes: link.Bytes(lost) * sent.Bytes / link.Bytes(sent.Packets)}
		count.Delivered.Packets -= count.Lost.Packets
		count.Delivered.Bytes -= count.Lost.Bytes
	}
	return link.Reading{Count: count}
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

// FloodMulticast says whether the LAN passes multicast on to the host at the other end of its link. If it does not, it is
// like a switch that snoops and has nobody to ask which hosts listen.
func (l *LAN) FloodMulticast(to *Host, on bool) error {
	for _, p := range l.ports {
		if slices.ContainsFunc(p.link.ends[:], func(end *port) bool { return end.owner == Node(to) }) {
			return l.space.enter(func() error { return floodMulticast(p.device, on) })
		}
	}
	return fmt.Errorf("%s is not on %s", to.name, l.name)
}

// floodMulticast sets what netlink has no call for: IFLA_BRPORT_MCAST_FLOOD of a bridge's port.
func floodMulticast(device string, on bool) error {
	found, err := netlink.LinkByName(device)
	if err != nil {
		return fmt.Errorf("find %s: %w", device, err)
	}
	flag := byte(0)
	if on {
		flag = 1
	}
	port := nl.NewIfInfomsg(unix.AF_BRIDGE)
	port.Index = int32(found.Attrs().Index)
	settings := nl.NewRtAttr(unix.IFLA_PROTINFO|unix.NLA_F_NESTED, nil)
	settings.AddRtAttr(nl.IFLA_BRPORT_MCAST_FLOOD, nl.Uint8Attr(flag))
	request := nl.NewNetlinkRequest(unix.RTM_SETLINK, unix.NLM_F_ACK)
	request.AddData(port)
	request.AddData(settings)
	if _, err := request.Execute(unix.NETLINK_ROUTE, 0); err != nil {
		return fmt.Errorf("set what %s floods: %w", device, err)
	}
	return nil
}

func (w *Link) both(act func(Way) error) error {
	for _, way := range w.Ways() {
		if err := act(way); err != nil {
			return err
		}
	}
	return nil
}
