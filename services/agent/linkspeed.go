package agent

import (
	"net"
	"net/netip"

	"github.com/groupcast/groupcast/internal/linkspeed"
)

// linkSpeed returns how many bytes a second the network interface that has the first of an agent's addresses can send, if
// it is a physical one, or several that are bonded, and says so; otherwise, that of the next address. It is 0 if none does.
func linkSpeed(dir string, addresses []string) uint64 {
	devices := devicesByAddress()
	for _, address := range addresses {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			continue // a name: only others need to resolve it
		}
		device, isHere := devices[at.Addr()]
		if !isHere || !linkspeed.IsPhysical(dir, device) {
			continue
		}
		if speed := linkspeed.Stated(dir, device); speed > 0 {
			return speed
		}
	}
	return 0
}

// devicesByAddress returns the names of this machine's network interfaces; none if they cannot be told.
func devicesByAddress() map[netip.Addr]string {
	devices := make(map[netip.Addr]string)
	all, _ := net.Interfaces()
	for _, device := range all {
		own, _ := device.Addrs()
		for _, address := range own {
			if prefix, err := netip.ParsePrefix(address.String()); err == nil {
				devices[prefix.Addr()] = device.Name
			}
		}
	}
	return devices
}
