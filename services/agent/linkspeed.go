package agent

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// interfaces is where the kernel tells of network interfaces.
const interfaces = "/sys/class/net"

// linkSpeed returns how many bytes a second the network interface can send that has the first of an agent's addresses:
// what the driver states of a physical one, or of several that are bonded. It is 0 if none states anything; virtual
// ones state what they like.
func linkSpeed(dir string, addresses []string) uint64 {
	devices := devicesByAddress()
	for _, address := range addresses {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			continue // a name: who it is, only others need to know
		}
		if speed := statedSpeed(filepath.Join(dir, devices[at.Addr()])); speed > 0 {
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

// statedSpeed returns an interface's speed in bytes per second; 0 if it is not physical, or does not state one.
func statedSpeed(device string) uint64 {
	if !exists(filepath.Join(device, "device")) && !exists(filepath.Join(device, "bonding")) {
		return 0
	}
	text, err := os.ReadFile(filepath.Join(device, "speed"))
	if err != nil {
		return 0
	}
	megabits, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 32)
	if err != nil || megabits <= 0 {
		return 0
	}
	return uint64(megabits) * 1e6 / 8
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
