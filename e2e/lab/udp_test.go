package lab_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
)

const (
	udpHeaders = 28 // IPv4 and UDP
	patience   = 2 * time.Second
)

// packets opens a datagram socket on host that ends with the test.
func packets(t *testing.T, host *lab.Host, port string) net.PacketConn {
	t.Helper()
	conn, err := host.ListenPacket(context.Background(), "udp4", ":"+port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.(*net.UDPConn).SetReadBuffer(4 << 20)
	return conn
}

// echo answers every datagram until the socket is closed.
func echo(t *testing.T, host *lab.Host) net.Addr {
	t.Helper()
	conn := packets(t, host, "7")
	go func() {
		frame := make([]byte, 65536)
		for {
			n, from, err := conn.ReadFrom(frame)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(frame[:n], from)
		}
	}()
	return net.UDPAddrFromAddrPort(addrPort(host, 7))
}

// roundTrips measures n round trips of a packet of size bytes, one at a time.
func roundTrips(t *testing.T, conn net.PacketConn, to net.Addr, size, n int) []time.Duration {
	t.Helper()
	trips := make([]time.Duration, n)
	frame := make([]byte, size-udpHeaders)
	for i := range trips {
		start := time.Now()
		if _, err := conn.WriteTo(frame, to); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(start.Add(patience))
		if _, _, err := conn.ReadFrom(frame); err != nil {
			t.Fatalf("round trip %d: %v", i, err)
		}
		trips[i] = time.Since(start)
	}
	return trips
}

func median(trips []time.Duration) time.Duration {
	slices.Sort(trips)
	return trips[len(trips)/2]
}

// sendNumbered sends n numbered datagrams, with a pause between two of them.
func sendNumbered(t *testing.T, conn net.PacketConn, to net.Addr, size, n int, pace time.Duration) {
	t.Helper()
	frame := make([]byte, size-udpHeaders)
	start := time.Now()
	for i := range n {
		binary.BigEndian.PutUint32(frame, uint32(i))
		if _, err := conn.WriteTo(frame, to); err != nil {
			t.Fatal(err)
		}
		for pace > 0 && time.Since(start) < time.Duration(i+1)*pace {
			<-time.After(pace)
		}
	}
}

// receiveNumbered returns the numbers that come until the line is quiet.
func receiveNumbered(t *testing.T, conn net.PacketConn, quiet time.Duration) []int {
	t.Helper()
	var numbers []int
	frame := make([]byte, 65536)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(quiet))
		n, _, err := conn.ReadFrom(frame)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return numbers
		}
		if err != nil || n < 4 {
			t.Fatalf("read %d bytes: %v", n, err)
		}
		numbers = append(numbers, int(binary.BigEndian.Uint32(frame)))
	}
}
