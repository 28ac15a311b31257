package lab

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// offloads are what lets a virtual cable carry more than packets of its MTU, or
// packets whose checksum nobody has computed.
var offloads = map[string]uint32{
	"checksums":             unix.ETHTOOL_STXCSUM,
	"TCP segmentation":      unix.ETHTOOL_STSO,
	"other segmentation":    unix.ETHTOOL_SGSO,
	"merging when received": unix.ETHTOOL_SGRO,
}

// setting is the kernel's struct ethtool_value.
type setting struct{ command, value uint32 }

// request is the kernel's struct ifreq, pointing to a setting.
type request struct {
	device [unix.IFNAMSIZ]byte
	data   unsafe.Pointer
	_      [16]byte
}

// withoutOffloads makes the device of p carry packets as a wire would. TUN and
// TAP ends do so by themselves.
func (p *port) withoutOffloads() error {
	return p.space().do(func() error {
		socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open a socket: %w", err)
		}
		defer unix.Close(socket)
		for name, command := range offloads {
			off := setting{command: command}
			asked := request{data: unsafe.Pointer(&off)}
			copy(asked.device[:], p.device)
			_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&asked)))
			if errno != 0 {
				return fmt.Errorf("turn off %s of %s: %w", name, p.device, errno)
			}
		}
		return nil
	})
}
