package lab

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Missing tells in one sentence what this machine lacks to run a lab, or nil.
func Missing() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("the network lab needs root to make network namespaces, and runs as user %d", os.Geteuid())
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("the network lab needs TUN devices, and this machine has no usable /dev/net/tun: %w", err)
	}
	return unix.Close(fd)
}
