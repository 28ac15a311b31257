package cli

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/groupcast/groupcast/internal/capture"
	wire "github.com/groupcast/groupcast/internal/wire/soma/paper"
)

// Servers on another port are known by what they send to their group. If there are too many, that is said.
func TestServersWithOtherPortsAreKnown(t *testing.T) {
	var said strings.Builder
	seen := traffic{port: 7431, stderr: &said}
	group, receiver := netip.MustParseAddrPort("239.255.74.31:7431"), netip.MustParseAddrPort("10.0.0.2:7431")
	server := func(i int) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), uint16(8000+i)) }
	isOurs := func(from, to netip.AddrPort, kind wire.Type) bool {
		t.Helper()
		is, err := seen.isOurs(nil, capture.Datagram{From: from, To: to, Payload: wire.Append(nil, wire.Packet{Type: kind, SN: 1, LWSN: 1})})
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	if !isOurs(receiver, server(0), wire.ACK) || isOurs(server(1), server(0), wire.ACK) {
		t.Error("what has the port is SOMA's, and nothing else is")
	}
	for i := range mostServers + 2 {
		if !isOurs(server(i), group, wire.Data) {
			t.Fatalf("what server %d sends to the group is not seen", i)
		}
	}
	other := netip.MustParseAddrPort("10.0.0.3:9000")
	for i, want := range map[int]bool{0: true, mostServers - 1: true, mostServers: false} {
		if is := isOurs(other, server(i), wire.ACK); is != want {
			t.Errorf("what is answered to server %d is seen: %v", i, is)
		}
	}
	if strings.Count(said.String(), "more than 63 servers") != 1 {
		t.Errorf("it said %q", said.String())
	}
}

// endless gives packets without an end.
type endless struct{ interrupt func() }

func (e endless) Next() (capture.Packet, error) {
	e.interrupt()
	return capture.Packet{}, nil
}

// A capture that is interrupted was not read to its end, which is an error; an interface has no end.
func TestInterruptedCaptures(t *testing.T) {
	for isFile, want := range map[bool]error{true: errInterrupted, false: nil} {
		ctx, interrupt := context.WithCancel(t.Context())
		from := traffic{port: 7431, stderr: io.Discard, isFile: isFile}
		if err := from.read(ctx, endless{interrupt}, nil); !errors.Is(err, want) {
			t.Errorf("of a file %v: %v, want %v", isFile, err, want)
		}
	}
}
