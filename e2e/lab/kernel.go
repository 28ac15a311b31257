package lab

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/groupcast/groupcast/e2e/lab/link"
)

const (
	ethernetHeader = 14 // which the kernel clocks, and a link.Shape does not
	// bucketPackets is how many packets of the MTU a link that was idle may pass at once. It covers the time until the kernel's timer has run.
	bucketPackets = 3
	// kernelPackets is the queue of a link that says none: as many packets as an Ethernet device has room for.
	kernelPackets = 1000
)

// ByKernel leaves the link's rate, queue and random loss to the kernel: no thread of the emulator runs for it. Such a link
// has no delay and no other faults, cannot be changed later, and loses other packets each time, whatever the lab's seed.
func (w *Link) ByKernel() *Link {
	w.byKernel, w.packets = true, true
	return w
}

// checkKernel tells what of the shapes the kernel does not keep.
func (w *Link) checkKernel() error {
	if w.emulated {
		return errors.New("it is either the kernel's or emulated")
	}
	for _, shape := range w.initial {
		if shape != (link.Shape{Rate: shape.Rate, Queue: shape.Queue, MTU: shape.MTU, Loss: shape.Loss}) || shape.Rate == 0 {
			return fmt.Errorf("the kernel keeps a rate, a queue, an MTU and loss, and no other part of %+v", shape)
		}
		if shape.Queue.Packets > 0 && shape.Queue.Bytes > 0 {
			return fmt.Errorf("the kernel bounds a queue in packets or in bytes, and not in both, as of %+v", shape)
		}
	}
	return nil
}

// bucket makes the device of p send at the rate of shape. A packet of the MTU takes as long as on an emulated link.
func (p *port) bucket(handle *netlink.Handle, shape link.Shape) error {
	device, err := handle.LinkByName(p.device)
	if err != nil {
		return fmt.Errorf("find %s: %w", p.device, err)
	}
	packet := link.Bytes(p.link.mtu())
	frame := packet + ethernetHeader
	rate := uint64(shape.Rate) / 8 * uint64(frame) / uint64(packet)
	limit := shape.Queue.Bytes
	if limit == 0 {
		limit = frame * link.Bytes(max(shape.Queue.Packets, 1))
		if shape.Queue.Packets == 0 {
			limit = frame * kernelPackets
		}
	}
	err = handle.QdiscAdd(&netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: device.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		Rate:       rate,
		Limit:      uint32(limit),
		Buffer:     netlink.Xmittime(rate, uint32(bucketPackets*frame)),
	})
	if err != nil {
		return fmt.Errorf("set the rate of %s: %w", p.device, err)
	}
	return nil
}
