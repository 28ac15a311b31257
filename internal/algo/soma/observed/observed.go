// Package observed finds the windows of a SOMA transfer and its throughput in the packets
// that somebody saw: what the paper's authors had awk do with the lines of tcpdump (004 §V).
package observed

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	wire "github.com/groupcast/groupcast/internal/wire/soma/paper"
)

// Window is one window of a transfer: how many packets it was meant to have, as numbers
// tell it.
type Window struct {
	At          time.Time // when its first packet was seen
	First, Last uint32
}

// Size is how many packets it has.
func (w Window) Size() int { return int(w.Last-w.First) + 1 }

// Flow is from where to where a transfer goes: its sender and its group. One may follow the other there.
type Flow struct{ Server, Group netip.AddrPort }

// Transfer is what was seen of one transfer.
type Transfer struct {
	Flow
	Packets map[wire.Type]int
	highest uint32               // the SN of its DATA
	ends    map[uint32]time.Time // of windows, by LWSN: when the first was seen
	carried []carried
}

// carried is a DATA that was seen.
type carried struct {
	at   time.Time
	bits float64
}

// Traffic is all transfers that were seen. The zero Traffic is ready.
type Traffic struct {
	transfers []*Transfer
	latest    map[Flow]*Transfer
	speaking  map[netip.AddrPort]*Transfer // by group, whose DATA came last
}

// See notes a packet. What clients send counts for the latest transfer of the server that they send
// it to, or for the one that the group hears just then.
func (t *Traffic) See(at time.Time, from, to netip.AddrPort, p wire.Packet) {
	if p.Type == wire.Data {
		t.data(at, Flow{from, to}, p)
		return
	}
	if transfer := t.speaking[to]; transfer != nil {
		transfer.Packets[p.Type]++
		return
	}
	for flow, transfer := range t.latest {
		if to == flow.Server || from == flow.Server {
			transfer.Packets[p.Type]++
		}
	}
}

// begins reports whether DATA is of another transfer: "the server never retransmits any data packet" (§III-A), but the end of a
// stream, and the network may hold back those of a window, of at most 100.
func (t *Transfer) begins(p wire.Packet) bool {
	return p.SN == 1 && t.highest > 1 || int64(p.SN)+100 < int64(t.highest)
}

func (t *Traffic) data(at time.Time, flow Flow, p wire.Packet) {
	if t.latest == nil {
		t.latest, t.speaking = map[Flow]*Transfer{}, map[netip.AddrPort]*Transfer{}
	}
	transfer := t.latest[flow]
	if transfer == nil || transfer.begins(p) {
		transfer = &Transfer{Flow: flow, Packets: map[wire.Type]int{}, ends: map[uint32]time.Time{}}
		t.latest[flow] = transfer
		t.transfers = append(t.transfers, transfer)
	}
	t.speaking[flow.Group] = transfer
	transfer.highest = max(transfer.highest, p.SN)
	transfer.Packets[p.Type]++
	transfer.carried = append(transfer.carried, carried{at, float64(8 * p.Length())})
	if _, is := transfer.ends[p.LWSN]; !is {
		transfer.ends[p.LWSN] = at
	}
}

// Transfers are all that were seen, by when they began.
func (t *Traffic) Transfers() []*Transfer {
	return slices.SortedStableFunc(slices.Values(t.transfers), func(a, b *Transfer) int { return a.Began().Compare(b.Began()) })
}

// Began is when its first DATA was seen.
func (t *Transfer) Began() time.Time { return t.carried[0].at }

// Windows are its windows. A window begins behind the end of the one before; of the first that
// was seen, if that is not the transfer's first, the beginning is not known, and it is left out.
func (t *Transfer) Windows() (windows []Window) {
	ends := slices.Sorted(maps.Keys(t.ends))
	for i, last := range ends {
		first := uint32(1)
		if i > 0 {
			first = ends[i-1] + 1
		} else if last > 1 {
			continue
		}
		windows = append(windows, Window{At: t.ends[last], First: first, Last: last})
	}
	return windows
}

// Rate is a throughput at a time, in bits per second.
type Rate struct {
	At   time.Time
	Bits float64
}

// Throughput is what each piece of time carried, of whole packets of SOMA's, DATA alone.
func (t *Transfer) Throughput(piece time.Duration) (rates []Rate) {
	seen := slices.SortedFunc(slices.Values(t.carried), func(a, b carried) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	sum, until := 0.0, seen[0].at.Add(piece)
	for _, one := range seen {
		if !one.at.Before(until) {
			rates = append(rates, Rate{At: until, Bits: sum / piece.Seconds()})
			sum, until = 0, until.Add(piece)
		}
		if silent := one.at.Sub(until); silent >= 0 { // a silence has a point at each end
			rates = append(rates, Rate{At: until}, Rate{At: one.at})
			until = one.at.Add(piece)
		}
		sum += one.bits
	}
	return rates
}
