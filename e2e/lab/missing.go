package lab

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const tunDevice = "/dev/net/tun"

// Missing tells in one sentence what this machine lacks to run a lab, or nil.
func Missing() error { return missing(os.Geteuid(), tunDevice) }

func missing(user int, tun string) error {
	if user != 0 {
		return fmt.Errorf("the network lab needs root to make network namespaces, and runs as user %d", user)
	}
	fd, err := unix.Open(tun, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("the network lab needs TUN devices, and %s cannot be opened: %w", tun, err)
	}
	return unix.Close(fd)
}
