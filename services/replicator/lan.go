package replicator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/groupcast/groupcast/internal/pause"
)

// lan is a LAN that this machine is on.
type lan struct{ name, device string }

func (c *Config) lans() (all []lan) {
	for _, text := range c.LANs {
		name, device, named := strings.Cut(text, "=")
		if !named {
			name, device = defaultLAN, text
		}
		all = append(all, lan{name, device})
	}
	return all
}

// names are those of the LANs.
func (c *Config) names() (names []string) {
	for _, one := range c.lans() {
		names = append(names, one.name)
	}
	return names
}

// at returns the configuration with this machine's name.
func (c *Config) at(node string) *Config {
	named := *c
	named.Node = node
	return &named
}

// way is what leads to a LAN: an interface, and this machine's address there where that was named, or its network.
type way struct {
	device  string
	address netip.Addr
}

// way returns what leads to a LAN now: the first that this machine is on leads to those that are not named.
func (c *Config) way(name string) (way, error) {
	for _, one := range c.lans() {
		if one.name == name {
			return wayOf(one.device)
		}
	}
	return c.first()
}

// wayOut returns what leads a sender to a LAN: where routers carry multicast, the first that this machine is on leads to all others, too.
// Without them nothing would get there, and what is meant for one LAN would go out into another.
func (c *Config) wayOut(name string) (way, error) {
	found, err := c.way(name)
	if c.TTL > 1 && errors.Is(err, errElsewhere) {
		return c.first()
	}
	return found, err
}

// first returns what leads to the first LAN that this machine is on.
func (c *Config) first() (found way, err error) {
	for _, one := range c.lans() {
		if found, err = wayOf(one.device); err == nil {
			break
		}
	}
	return found, err
}

var (
	// errElsewhere says that this machine is not on a network.
	errElsewhere = errors.New("no network interface has an address of")
	// errGone says that it does not have the interface that is named.
	errGone = errors.New("network interface")
)

// here returns the configuration with this machine's name, and its network interfaces for the LANs. Of those that are named by their
// networks it leaves out what this machine is not on: machines of several LANs can have one configuration. Interfaces that are named
// have to be there.
func (c *Config) here() (*Config, error) {
	found, gone, err := c.look()
	if err = cmp.Or(err, gone); err != nil {
		return nil, err
	}
	return found, nil
}

// look is here where interfaces that are named may be gone: this machine counts as on their LANs all the same. gone says which one is.
func (c *Config) look() (found *Config, gone, err error) {
	here := *c
	here.LANs = nil
	if hostname, err := os.Hostname(); c.Node == "" && err != nil {
		return nil, nil, fmt.Errorf("name of this machine (set node): %w", err)
	} else if c.Node == "" {
		here.Node = hostname
	}
	var elsewhere []string
	for _, lan := range c.lans() {
		to, err := wayOf(lan.device)
		switch {
		case errors.Is(err, errElsewhere):
			elsewhere = append(elsewhere, lan.device)
			continue
		case errors.Is(err, errGone):
			gone, to.device = fmt.Errorf("lans: %w", err), lan.device
		case err != nil:
			return nil, nil, fmt.Errorf("lans: %w", err)
		}
		here.LANs = append(here.LANs, lan.name+"="+to.device)
	}
	if len(here.LANs) == 0 {
		return nil, nil, fmt.Errorf("lans: %w %s", errElsewhere, strings.Join(elsewhere, ", "))
	}
	return &here, gone, nil
}

// moved returns the configuration for the LANs that this machine is on once they are others than before; or that one, when ctx ends. It looks
// twice: an address may be away for a moment.
func (c *Config) moved(ctx context.Context, log *slog.Logger, before *Config) *Config {
	var last []string
	isGone := false
	for pause.For(ctx, lookEvery) {
		found, gone, err := c.look()
		if err != nil {
			continue // on none, for now
		}
		if gone != nil && !isGone {
			log.Warn("a network interface is gone: this machine counts as on its LAN as before", "error", gone)
		}
		isGone = gone != nil
		names := found.names()
		if slices.Equal(names, last) && !slices.Equal(names, before.names()) {
			return found
		}
		last = names
	}
	return before
}

// leftOut are the LANs that a configuration has beyond those that this machine is on.
func (c *Config) leftOut(here *Config) (names []string) {
	for _, one := range c.lans() {
		if !slices.ContainsFunc(here.lans(), func(l lan) bool { return l.name == one.name }) {
			names = append(names, one.name+"="+one.device)
		}
	}
	return names
}

// wayOf returns the network interface that a text names, or that has an address of the network that it names.
func wayOf(text string) (way, error) {
	network, err := netip.ParsePrefix(text)
	if address, failed := netip.ParseAddr(text); failed == nil {
		network, err = netip.PrefixFrom(address, address.BitLen()), nil
	}
	if err != nil {
		if _, err := net.InterfaceByName(text); err != nil {
			return way{}, fmt.Errorf("%w %s: %w", errGone, text, err)
		}
		return way{device: text}, nil
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return way{}, fmt.Errorf("list network interfaces: %w", err)
	}
	for _, one := range interfaces {
		addresses, err := one.Addrs()
		if err != nil {
			return way{}, fmt.Errorf("addresses of %s: %w", one.Name, err)
		}
		for _, address := range addresses {
			if has, err := netip.ParsePrefix(address.String()); err == nil && network.Contains(has.Addr()) {
				return way{one.Name, has.Addr()}, nil
			}
		}
	}
	return way{}, fmt.Errorf("%w %s", errElsewhere, network)
}
