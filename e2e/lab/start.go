package lab

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/groupcast/groupcast/e2e/lab/link"
)

const bridgeName = "lan"

// running is what a started lab owns.
type running struct {
	started   bool
	clock     link.Clock
	spaces    []*space
	carriers  sync.WaitGroup
	broken    error // the first failure of a direction
	brokenSet sync.Once
	processes []*Process
	guard     sync.Mutex // of processes
	freeCores func()
}

// Start builds the network. On an error nothing is left behind.
func (l *Lab) Start() error {
	if l.started {
		return errors.New("start a lab: it has been started before")
	}
	if err := errors.Join(Missing(), l.check()); err != nil {
		return fmt.Errorf("start a lab: %w", err)
	}
	if err := reap(); err != nil {
		return fmt.Errorf("start a lab: remove what a crashed run left: %w", err)
	}
	l.started = true
	l.clock = link.StartClock()
	l.freeCores = reserveProcessors(2*len(l.links) + len(l.hosts) + len(l.lans))
	if err := l.build(); err != nil {
		return errors.Join(fmt.Errorf("start a lab: %w", err), l.Close())
	}
	return nil
}

func (l *Lab) build() error {
	plan, err := l.plan()
	if err != nil {
		return err
	}
	for _, step := range []func() error{l.openSpaces, l.connect, l.raisePorts, func() error { return l.setRoutes(plan) }, l.awaitCarriers} {
		if err := step(); err != nil {
			return err
		}
	}
	l.carry()
	return nil
}

func (l *Lab) openSpaces() error {
	for _, h := range l.hosts {
		forwarding := map[string]string{}
		if h.forwards {
			forwarding["net/ipv4/ip_forward"] = "1"
		}
		s, err := l.openSpace(forwarding)
		if err != nil {
			return fmt.Errorf("host %s: %w", h.name, err)
		}
		h.space = s
	}
	for _, lan := range l.lans {
		s, err := l.openSpace(nil)
		if err != nil {
			return fmt.Errorf("LAN %s: %w", lan.name, err)
		}
		lan.space = s
		if err := within(s, addBridge); err != nil {
			return fmt.Errorf("LAN %s: %w", lan.name, err)
		}
	}
	return nil
}

func (l *Lab) openSpace(extra map[string]string) (*space, error) {
	s, err := openSpace()
	if err != nil {
		return nil, err
	}
	l.spaces = append(l.spaces, s)
	if err := s.configure(extra); err != nil {
		return nil, err
	}
	return s, within(s, func(handle *netlink.Handle) error {
		loopback, err := handle.LinkByName("lo")
		if err != nil {
			return err
		}
		return handle.LinkSetUp(loopback)
	})
}

// addBridge makes a switch that floods multicast, as a switch without IGMP snooping does.
func addBridge(handle *netlink.Handle) error {
	snooping := false
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName}, MulticastSnooping: &snooping}
	if err := handle.LinkAdd(bridge); err != nil {
		return fmt.Errorf("make a bridge: %w", err)
	}
	return handle.LinkSetUp(bridge)
}

// connect makes the devices of all links.
func (l *Lab) connect() error {
	for number, wire := range l.links {
		var err error
		if wire.isEmulated() {
			err = l.emulate(wire, uint64(number))
		} else {
			err = within(wire.ends[0].space(), wire.cable)
		}
		if err != nil {
			return fmt.Errorf("link %s: %w", wire.Name(), err)
		}
	}
	return nil
}

// emulate opens both ends and a direction each way. Every direction has a seed of its own, given by its place in the declaration.
func (l *Lab) emulate(wire *Link, number uint64) error {
	framing := wire.framing()
	for side, end := range wire.ends {
		fd, err := end.openTap(framing)
		if err != nil {
			return err
		}
		wire.tapped[side] = fd
	}
	for side := range wire.ways {
		shaper := link.NewShaper(wire.initial[side], framing, l.seed<<20+2*number+uint64(side))
		way, err := link.NewDirection(l.clock, wire.tapped[side], wire.tapped[1-side], shaper)
		if err != nil {
			return err
		}
		wire.ways[side] = way
	}
	return nil
}

func (l *Lab) raisePorts() error {
	for _, wire := range l.links {
		for side, end := range wire.ends {
			if err := end.prepare(wire.initial[side], wire.initial[1-side]); err != nil {
				return fmt.Errorf("link %s: %w", wire.Name(), err)
			}
		}
	}
	return nil
}

func (l *Lab) awaitCarriers() error {
	for _, wire := range l.links {
		for _, end := range wire.ends {
			if err := within(end.space(), end.awaitCarrier); err != nil {
				return fmt.Errorf("link %s: %w", wire.Name(), err)
			}
		}
	}
	return nil
}

// carry lets the packets flow.
func (l *Lab) carry() {
	for _, wire := range l.links {
		for _, way := range wire.ways {
			if way == nil {
				continue
			}
			l.carriers.Go(func() {
				if err := way.Run(); err != nil {
					l.brokenSet.Do(func() { l.broken = fmt.Errorf("link %s: %w", wire.Name(), err) })
				}
			})
		}
	}
}

// pause waits for the kernel, which does not tell when it is ready.
func pause(d time.Duration) { <-time.After(d) }
