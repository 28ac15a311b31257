package sdk

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/link"
)

const (
	// steadyRate is below which a rate, in bytes per second, needs small segments to be a steady one.
	steadyRate = 4 << 20
	// steadySegment is what an Ethernet carries at once.
	steadySegment = 1400
)

// steady returns a dialer for connections of a bounded rate. The kernel paces by two segments at
// once at least, and sends ten before it knows anything; over loopback, and wherever frames are
// large, that would be silence for seconds, and then much at once.
func steady(dialer link.Dialer, rate uint64) link.Dialer {
	plain, is := dialer.(*net.Dialer)
	if !is || rate == 0 || rate >= steadyRate {
		return dialer
	}
	small := *plain
	small.Control = func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, steadySegment)
		})
		return errors.Join(err, failed)
	}
	return &small
}
