package traffic

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/thread"
)

// udpHeaders is what IPv4 and UDP add to a datagram.
const udpHeaders = 28

// Interference is UDP at a constant rate, on and off by a schedule.
type Interference struct {
	From, To *lab.Host
	Port     uint16
	Packet   link.Bytes // size of the IP packet
	Schedule []Period
	Sent     atomic.Int64 // packets
}

// Period is a time of interference, counted from the start of Run.
type Period struct {
	From, Until time.Duration
	Rate        link.Rate // of IP packets
}

// longestSleep bounds how late the end of ctx is noticed.
const longestSleep = 50 * time.Millisecond

// Run sends until the schedule or ctx ends. Nobody has to listen at the far end.
func (i *Interference) Run(ctx context.Context) error {
	conn, err := i.From.ListenPacket(ctx, "udp4", i.From.At(0)) // a connected socket would learn of refusals
	if err != nil {
		return fmt.Errorf("interfere from %s: %w", i.From.Name(), err)
	}
	defer conn.Close()
	to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(i.To.Addr(), i.Port))
	datagram := make([]byte, i.Packet-udpHeaders)
	start := time.Now()
	return thread.Do(func() error {
		for _, period := range i.Schedule {
			gap := period.Rate.Time(i.Packet)
			for at := period.From; at < period.Until && ctx.Err() == nil; at += gap {
				sleepUntil(ctx, start, at)
				if _, err := conn.WriteTo(datagram, to); err != nil {
					return fmt.Errorf("interfere from %s: %w", i.From.Name(), err)
				}
				i.Sent.Add(1)
			}
		}
		return nil
	})
}

// sleepUntil sleeps in the kernel, whose timer is finer than the runtime's.
func sleepUntil(ctx context.Context, start time.Time, at time.Duration) {
	for ctx.Err() == nil {
		left := at - time.Since(start)
		if left <= 0 {
			return
		}
		request := unix.NsecToTimespec(int64(min(left, longestSleep)))
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &request, nil)
	}
}
