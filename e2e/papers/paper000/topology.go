// Package paper000 reproduces the evaluation of paper 000, group communication
// over session agents (000 §IV and §V).
package paper000

import (
	"slices"
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

// network is figure 5: networks a and b at router SA1, c and d at SA2.
type network struct {
	*lab.Lab
	scale     int // by which rates, sizes and queues are smaller than the paper's
	routers   [2]*lab.Host
	senders   []*lab.Host
	receivers []*lab.Host
	router    map[*lab.Host]*lab.Host // of each sender and receiver
	uplinks   []lab.Way               // from each sender to its router
	manager   *lab.Host               // of our own processes, outside the network
}

// figure5 returns the network at a point. With one sender that is ma1, the only member in a; with
// four, the first members of all networks send to each other.
func figure5(seed uint64, p point) *network {
	n := &network{Lab: lab.New(seed), router: map[*lab.Host]*lab.Host{}}
	n.routers = [2]*lab.Host{n.Router("SA1"), n.Router("SA2")}
	n.scale = max(1, p.scale)
	edge := link.Shape{Rate: rate / link.Rate(n.scale), Delay: edgeDelay, Queue: link.Packets(outputBuffer / n.scale)}
	trunk := edge
	trunk.Delay = p.trunkDelay
	n.Link(n.routers[0], n.routers[1], trunk)
	for i, name := range []string{"ma", "mb", "mc", "md"} {
		members := p.members
		if i == 0 {
			members = 1
		}
		for j, host := range n.Hosts(name, members) {
			n.router[host] = n.routers[i/2]
			wire := n.Link(host, n.router[host], edge)
			if j == 0 && i < p.senders {
				n.senders = append(n.senders, host)
				n.uplinks = append(n.uplinks, wire.From(host))
			}
			if i > 0 || p.senders > 1 {
				n.receivers = append(n.receivers, host)
			}
		}
	}
	n.manager = n.Host("manager")
	return n
}

// sides returns the receivers at the first router, where ma1 is, and those behind the trunk.
func (n *network) sides() (near, far []*lab.Host) {
	for _, receiver := range n.receivers {
		if n.router[receiver] == n.routers[0] {
			near = append(near, receiver)
		} else {
			far = append(far, receiver)
		}
	}
	return near, far
}

// data returns how much is sent at a time.
func (n *network) data() link.Bytes { return dataSize / link.Bytes(n.scale) }

// raiseBuffers raises the kernel's buffers so that windows are limited by the network: 000 uses TCP SACK without a limit.
func (n *network) raiseBuffers() error {
	for _, host := range slices.Concat(n.senders, n.receivers, n.routers[:]) {
		for _, name := range []string{"net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem"} {
			if err := host.Set(name, "4096 131072 33554432"); err != nil {
				return err
			}
		}
	}
	return nil
}
