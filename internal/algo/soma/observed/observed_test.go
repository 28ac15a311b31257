package observed_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/groupcast/groupcast/internal/algo/soma/observed"
	wire "github.com/groupcast/groupcast/internal/wire/soma/paper"
)

var (
	server = netip.MustParseAddrPort("10.0.0.1:7431")
	client = netip.MustParseAddrPort("10.0.0.2:7431")
	group  = netip.MustParseAddrPort("239.7.7.7:7431")
	begin  = time.Unix(1000, 0)
)

// watch sees windows of these sizes, 10 ms apart, without the packets that are lost.
func watch(lost map[uint32]bool, sizes ...uint32) *observed.Traffic {
	traffic := &observed.Traffic{}
	see(traffic, begin, server, lost, sizes...)
	return traffic
}

// see sees a server's windows, from some time on.
func see(traffic *observed.Traffic, from time.Time, server netip.AddrPort, lost map[uint32]bool, sizes ...uint32) {
	sn := uint32(0)
	for i, size := range sizes {
		last := sn + size
		for sn < last {
			sn++
			if !lost[sn] {
				traffic.See(from.Add(time.Duration(i)*10*time.Millisecond), server, group, wire.Packet{SN: sn, Type: wire.Data, LWSN: last, Payload: make([]byte, 512)})
			}
		}
		traffic.See(from, client, group, wire.Packet{SN: last, Type: wire.ACK, LWSN: last})
	}
}

// "The Last Window Sequence Number (LWSN) is used to indicate the last packet of a given window"
// (§III-B): windows are known even if packets of them were not seen.
func TestWindowsAreFound(t *testing.T) {
	transfer := watch(map[uint32]bool{2: true, 6: true}, 1, 2, 3).Transfers()[0]
	want := []observed.Window{
		{At: begin, First: 1, Last: 1},
		{At: begin.Add(10 * time.Millisecond), First: 2, Last: 3},
		{At: begin.Add(20 * time.Millisecond), First: 4, Last: 6},
	}
	if diff := cmp.Diff(want, transfer.Windows()); diff != "" {
		t.Error(diff)
	}
	if transfer.Packets[wire.ACK] != 3 || transfer.Packets[wire.Data] != 4 {
		t.Errorf("packets: %v", transfer.Packets)
	}
}

// Of a capture that begins in the middle, the first window is left out.
func TestCaptureFromTheMiddle(t *testing.T) {
	windows := watch(map[uint32]bool{1: true, 2: true, 3: true, 4: true}, 1, 2, 3, 4).Transfers()[0].Windows()
	if len(windows) != 1 || windows[0].Size() != 4 {
		t.Errorf("%+v", windows)
	}
}

func TestThroughput(t *testing.T) {
	rates := watch(nil, 1, 2, 3).Transfers()[0].Throughput(10 * time.Millisecond)
	if len(rates) != 2 || rates[0].Bits != 523*8*100 || rates[1].Bits != 2*523*8*100 {
		t.Errorf("%+v", rates)
	}
}

// Two servers are two transfers.
func TestServersAreKeptApart(t *testing.T) {
	traffic := watch(nil, 1)
	traffic.See(begin.Add(time.Second), client, group, wire.Packet{SN: 1, Type: wire.Data, LWSN: 1})
	if all := traffic.Transfers(); len(all) != 2 || all[0].Server != server || all[1].Server != client {
		t.Errorf("%d transfers", len(all))
	}
}

// A server sends one file after the other, with one port or with another for each: each is a transfer with its own windows, and what
// clients say to the group is of the one that is sent then.
func TestOneTransferAfterTheOther(t *testing.T) {
	other := netip.AddrPortFrom(server.Addr(), 40000)
	for _, next := range []netip.AddrPort{server, other} {
		for name, lost := range map[string]map[uint32]bool{"its first was seen": nil, "it was not": {1: true}} {
			traffic := watch(nil, 1, 2, 100, 3)
			see(traffic, begin.Add(time.Second), next, lost, 1, 3, 2)
			traffic.See(begin.Add(2*time.Second), client, next, wire.Packet{SN: 2, Type: wire.NACK, LWSN: 4})
			all := traffic.Transfers()
			if len(all) != 2 {
				t.Fatalf("from %v, %s: %d transfers", next, name, len(all))
			}
			var sizes [2][]int
			for i, one := range all {
				for _, w := range one.Windows() {
					sizes[i] = append(sizes[i], w.Size())
				}
			}
			want, acks := [2][]int{{1, 2, 100, 3}, {1, 3, 2}}, [2]int{4, 3}
			if lost != nil { // then the ACK for it came before anything of the second was seen
				want[1], acks = want[1][2:], [2]int{5, 2}
			}
			if diff := cmp.Diff(want, sizes); diff != "" {
				t.Errorf("from %v, %s: %s", next, name, diff)
			}
			if all[0].Packets[wire.ACK] != acks[0] || all[1].Packets[wire.ACK] != acks[1] || all[0].Packets[wire.NACK] != 0 || all[1].Packets[wire.NACK] != 1 {
				t.Errorf("from %v: %v and %v", next, all[0].Packets, all[1].Packets)
			}
		}
	}
}
