package lab

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

var multicast = netip.MustParsePrefix("224.0.0.0/4")

func (l *Lab) setRoutes(p *plan) error {
	for _, h := range l.hosts {
		if len(h.ports) == 0 {
			continue
		}
		routes := append([]route{{to: multicast, out: h.ports[0]}}, p.routes[h]...)
		err := within(h.space, func(handle *netlink.Handle) error { return addRoutes(handle, routes) })
		if err != nil {
			return fmt.Errorf("host %s: %w", h.name, err)
		}
	}
	return nil
}

func addRoutes(handle *netlink.Handle, routes []route) error {
	for _, r := range routes {
		device, err := handle.LinkByName(r.out.device)
		if err != nil {
			return fmt.Errorf("find %s: %w", r.out.device, err)
		}
		entry := &netlink.Route{LinkIndex: device.Attrs().Index, Dst: ipNet(r.to), Scope: netlink.SCOPE_LINK}
		if r.via.IsValid() {
			entry.Gw, entry.Scope = r.via.AsSlice(), netlink.SCOPE_UNIVERSE
		}
		if err := handle.RouteAdd(entry); err != nil {
			return fmt.Errorf("add route to %s: %w", r.to, err)
		}
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// SetCongestion makes connections of this host use a congestion control, whatever this machine's
// default is: its routes say so. A connection that chooses another after it was made has that.
func (h *Host) SetCongestion(name string) error {
	if h.space == nil {
		return fmt.Errorf("select congestion control %s: host %s is not running", name, h.name)
	}
	return within(h.space, func(handle *netlink.Handle) error {
		// Routes of a table other than the main one have to be asked for; those in the local table lead from a host to itself.
		for _, table := range []int{unix.RT_TABLE_MAIN, unix.RT_TABLE_LOCAL} {
			routes, err := handle.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: table}, netlink.RT_FILTER_TABLE)
			if err != nil {
				return fmt.Errorf("list routes of %s: %w", h.name, err)
			}
			for _, route := range routes {
				if route.Type != unix.RTN_UNICAST && route.Type != unix.RTN_LOCAL {
					continue
				}
				route.Congctl = name
				if err := handle.RouteReplace(&route); err != nil {
					return fmt.Errorf("select congestion control %s for %v: %w", name, route.Dst, err)
				}
			}
		}
		return nil
	})
}
