// Package paper001 reproduces the evaluation of paper 001, the management of an
// access link by the receiver (001 §4).
package paper001

import (
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
)

// The parameters of scenario 1 (001 §4.1.1).
const (
	accessRate   = 4 * link.Mbit
	routerBuffer = 128 * link.KiB
	shortCount   = 100
	shortSize    = 30_000 * link.Bytes(1)
	shortMean    = 5 * time.Second
	shortStart   = 100 * time.Second
)

// The text gives figure 4's access rate, its buffer, and the delays from sender to receiver. How a
// delay is divided, and the speed of the senders' links, are our choice; these links are fast
// enough to queue nothing.
const (
	accessDelay = 5 * time.Millisecond
	senderRate  = 100 * link.Mbit
)

// senders are A to D of figure 4, with their delay to the receiver.
var senders = []struct {
	name  string
	delay time.Duration
}{
	{"A", 35 * time.Millisecond},
	{"B", 45 * time.Millisecond},
	{"C", 55 * time.Millisecond},
	{"D", 10 * time.Millisecond},
}

// network is figure 4: four senders, the last-hop router, the receiver.
type network struct {
	*lab.Lab
	senders  map[string]*lab.Host
	receiver *lab.Host
	access   lab.Way // from the router to the receiver: the bottleneck
}

func scenario1(seed uint64) *network {
	n := &network{Lab: lab.New(seed), senders: map[string]*lab.Host{}}
	router := n.Router("router")
	n.receiver = n.Host("receiver")
	access := n.Link(router, n.receiver, link.Shape{Rate: accessRate, Delay: accessDelay, Queue: link.Size(routerBuffer)})
	n.access = access.From(router)
	for _, sender := range senders {
		host := n.Host(sender.name)
		n.Link(host, router, link.Shape{Rate: senderRate, Delay: sender.delay - accessDelay})
		n.senders[sender.name] = host
	}
	return n
}
