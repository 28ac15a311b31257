// Package paper002 reproduces the experiments of paper 002 with parallel connections
// and socket buffers (002 §3.2).
package paper002

import (
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
)

// The paper measured on the Internet between Florida and Virginia, and tells nothing of the
// path but what went through it. This one is such that a connection with 8 KB of buffer
// carries as much as there (2.2 Mbit/s), that one with more is held back by loss as there
// (7 Mbit/s), and that there is room for the most that the paper saw (15.5 Mbit/s).
const (
	pathRate  = 20 * link.Mbit
	pathDelay = 15 * time.Millisecond // each way
	pathLoss  = 0.005
	pathQueue = 50 // packets, dropped at the tail
)

// congestion is what systems had when the paper was written.
const congestion = "reno"

// network is two machines and the path between them.
type network struct {
	*lab.Lab
	florida, virginia *lab.Host // sender and receiver
	path              lab.Way
}

func internet(seed uint64) *network {
	return across(seed, link.Shape{Rate: pathRate, Delay: pathDelay, Queue: link.Packets(pathQueue), Loss: pathLoss})
}

// across is two machines with a path that loses something by itself one way at most.
func across(seed uint64, there link.Shape) *network {
	n := &network{Lab: lab.New(seed)}
	n.florida, n.virginia = n.Host("florida"), n.Host("virginia")
	back := there
	back.Loss = 0
	n.path = n.Link(n.florida, n.virginia, there).Back(back).From(n.florida)
	return n
}
