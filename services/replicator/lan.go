package replicator

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
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

// device is the network interface that leads to a LAN.
func (c *Config) device(name string) string {
	all := c.lans()
	for _, one := range all {
		if one.name == name {
			return one.device
		}
	}
	return all[0].device
}

// errElsewhere says that this machine is not on a network.
var errElsewhere = errors.New("no network interface has an address of")

// here returns the configuration with this machine's name, and its network interfaces for the LANs. Of those that are named by their
// networks it leaves out what this machine is not on: machines of several LANs can have one configuration.
func (c *Config) here() (*Config, error) {
	found := *c
	found.LANs = nil
	if hostname, err := os.Hostname(); c.Node == "" && err != nil {
		return nil, fmt.Errorf("name of this machine (set node): %w", err)
	} else if c.Node == "" {
		found.Node = hostname
	}
	var elsewhere []string
	for _, lan := range c.lans() {
		device, err := interfaceOf(lan.device)
		switch {
		case errors.Is(err, errElsewhere):
			elsewhere = append(elsewhere, lan.device)
		case err != nil:
			return nil, fmt.Errorf("lans: %w", err)
		default:
			found.LANs = append(found.LANs, lan.name+"="+device)
		}
	}
	if len(found.LANs) == 0 {
		return nil, fmt.Errorf("lans: %w %s", errElsewhere, strings.Join(elsewhere, ", "))
	}
	return &found, nil
}

// interfaceOf returns the name of the network interface that a text names, or that has an
// address of the network that it names.
func interfaceOf(text string) (string, error) {
	network, err := netip.ParsePrefix(text)
	if address, failed := netip.ParseAddr(text); failed == nil {
		network, err = netip.PrefixFrom(address, address.BitLen()), nil
	}
	if err != nil {
		if _, err := net.InterfaceByName(text); err != nil {
			return "", fmt.Errorf("network interface %s: %w", text, err)
		}
		return text, nil
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return "", fmt.Errorf("list network interfaces: %w", err)
	}
	for _, one := range interfaces {
		addresses, err := one.Addrs()
		if err != nil {
			return "", fmt.Errorf("addresses of %s: %w", one.Name, err)
		}
		for _, address := range addresses {
			if has, err := netip.ParsePrefix(address.String()); err == nil && network.Contains(has.Addr()) {
				return one.Name, nil
			}
		}
	}
	return "", fmt.Errorf("%w %s", errElsewhere, network)
}
