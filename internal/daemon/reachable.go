package daemon

import (
	"errors"
	"fmt"
	"net"
)

// Reachable returns where others reach what listens at an address: everywhere stands for
// each of this machine's addresses that others can use.
func Reachable(listening string) ([]string, error) {
	host, port, err := net.SplitHostPort(listening)
	if err != nil {
		return nil, fmt.Errorf("data port: %w", err)
	}
	if ip := net.ParseIP(host); !ip.IsUnspecified() {
		return []string{listening}, nil
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("addresses of this machine (set data.addresses): %w", err)
	}
	var addresses []string
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
