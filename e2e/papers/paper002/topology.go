// Package paper002 reproduces the experiments of paper 002 with parallel connections
// and socket buffers (002 §3.2).
package paper002

import (
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
)

// The paper's authors measured on the Internet between Florida and Virginia, and say nothing about
// the path except what went through it. Here the path is such that a connection with a buffer of 8
// KB carries as much as there (2.2 Mbit/s), that one with a larger buffer is limited by loss to as
// much as there (7 Mbit/s), and that there is room for the most that the paper saw (15.5 Mbit/s).
const (
	pathRate  = 20 * link.Mbit
	pathDelay = 15 * time.Millisecond // each way
	pathLoss  = 0.005
	pathQueue = 50 // packets, dropped at the tail
)

// congestion is what systems had when the paper was written, and today what they have now, and deliveries by default.
const congestion, today = "reno", "cubic"

// network is two machines and the path between them.
type network struct {
	*lab.Lab
	florida, virginia *lab.Host // sender and receiver
	path              lab.Way
}

func internet(seed uint64) *network {
	return across(seed, link.Shape{Rate: pathRate, Delay: pathDelay, Queue: link.Packets(pathQueue), Loss: pathLoss})
}

// across returns two machines with a path that may lose packets by itself in one direction.
func across(seed uint64, there link.Shape) *network {
	n := &network{Lab: lab.New(seed)}
	n.florida, n.virginia = n.Host("florida"), n.Host("virginia")
	back := there
	back.Loss = 0
	n.path = n.Link(n.florida, n.virginia, there).Back(back).From(n.florida)
	return n
}
