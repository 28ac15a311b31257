// Package paper000 reproduces the evaluation of paper 000, group communication
// over session agents (000 §IV and §V).
package paper000

import (
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
)

// The parameters of 000 §IV-A and table I.
const (
	rate         = 100 * link.Mbit
	edgeDelay    = 10 * time.Millisecond
	outputBuffer = 200 // packets
	dataSize     = 5_000_000 * link.Bytes(1)
	mostMembers  = 5
)

// network is figure 5: networks a and b at router SA1, c and d at SA2. The
// sender ma1 is the only member in a.
type network struct {
	*lab.Lab
	sender    *lab.Host
	receivers []*lab.Host
	uplink    lab.Way // from ma1 to SA1, whose consumption figure 6 shows
}

func figure5(seed uint64, members int, trunkDelay time.Duration) *network {
	n := &network{Lab: lab.New(seed)}
	sa1, sa2 := n.Router("SA1"), n.Router("SA2")
	edge := link.Shape{Rate: rate, Delay: edgeDelay, Queue: link.Packets(outputBuffer)}
	trunk := edge
	trunk.Delay = trunkDelay
	n.Link(sa1, sa2, trunk)

	n.sender = n.Host("ma1")
	n.uplink = n.Link(n.sender, sa1, edge).From(n.sender)
	for _, place := range []struct {
		network string
		router  *lab.Host
	}{{"mb", sa1}, {"mc", sa2}, {"md", sa2}} {
		for _, receiver := range n.Hosts(place.network, members) {
			n.Link(receiver, place.router, edge)
			n.receivers = append(n.receivers, receiver)
		}
	}
	return n
}
