package daemon

import (
	"errors"
	"fmt"
	"net"
)

// Reachable returns the addresses at which others reach what listens at an address. These are the
// given addresses, if any, or else the given hosts with its port. If neither is given and it
// listens everywhere, they are all addresses of this machine that others can use.
func Reachable(listening string, addresses, hosts []string) ([]string, error) {
	if len(addresses) > 0 {
		return addresses, nil
	}
	host, port, err := net.SplitHostPort(listening)
	if err != nil {
		return nil, fmt.Errorf("data port: %w", err)
	}
	if len(hosts) > 0 {
		for _, name := range hosts {
			addresses = append(addresses, net.JoinHostPort(name, port))
		}
		return addresses, nil
	}
	if ip := net.ParseIP(host); !ip.IsUnspecified() {
		return []string{listening}, nil
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("addresses of this machine (set data.addresses): %w", err)
	}
	for _, address := range own {
		if network, is := address.(*net.IPNet); is && network.IP.IsGlobalUnicast() {
			addresses = append(addresses, net.JoinHostPort(network.IP.String(), port))
		}
	}
	if len(addresses) == 0 {
		return nil, errors.New("this machine has no address that others reach: set data.addresses")
	}
	return addresses, nil
}
