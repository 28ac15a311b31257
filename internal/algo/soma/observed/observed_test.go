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
	sn := uint32(0)
	for i, size := range sizes {
		last := sn + size
		for sn < last {
			sn++
			if !lost[sn] {
				traffic.See(begin.Add(time.Duration(i)*10*time.Millisecond), server, group, wire.Packet{SN: sn, Type: wire.Data, LWSN: last, Payload: make([]byte, 512)})
			}
		}
		traffic.See(begin, client, group, wire.Packet{SN: last, Type: wire.ACK, LWSN: last})
	}
	return traffic
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
