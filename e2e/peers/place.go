package main

import (
	"fmt"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
)

// network is a started topology with one sender.
type network struct {
	*lab.Lab
	sender    *lab.Host
	receivers []*lab.Host
	rate      link.Rate
	uplink    lab.Way // from the sender
}

// place is a topology that tools are compared on.
type place struct {
	name   string
	about  string
	routed bool // multicast does not pass
	build  func(seed uint64) *network
}

const queue = 200 // packets, at every link

var places = []place{
	{
		name: "lan4", about: "1 to 4 receivers on a LAN of 100 Mbit/s links",
		build: func(seed uint64) *network { return onLAN(seed, 4, 100*link.Mbit) },
	},
	{
		name: "lan16", about: "1 to 16 receivers on a LAN of 40 Mbit/s links",
		build: func(seed uint64) *network { return onLAN(seed, 16, 40*link.Mbit) },
	},
	{
		name: "figure5", about: "1 to 3 networks of 2 over two routers, figure 5 of paper 000, 50 Mbit/s, trunk of 50 ms", routed: true,
		build: figure5,
	},
}

// onLAN is a switch, with an emulated cable to every host.
func onLAN(seed uint64, receivers int, rate link.Rate) *network {
	n := &network{Lab: lab.New(seed), rate: rate}
	cable := link.Shape{Rate: rate, Delay: 100 * time.Microsecond, Queue: link.Packets(queue)}
	lan := n.LAN("lan")
	n.sender = n.Host("sender")
	n.uplink = n.Link(n.sender, lan, cable).From(n.sender)
	n.receivers = n.Hosts("receiver", receivers)
	for _, receiver := range n.receivers {
		n.Link(receiver, lan, cable)
	}
	return n
}

// figure5 is the topology of 000 §IV-A with two members in each network.
func figure5(seed uint64) *network {
	n := &network{Lab: lab.New(seed), rate: 50 * link.Mbit}
	edge := link.Shape{Rate: n.rate, Delay: 10 * time.Millisecond, Queue: link.Packets(queue)}
	trunk := edge
	trunk.Delay = 50 * time.Millisecond
	sa1, sa2 := n.Router("SA1"), n.Router("SA2")
	n.Link(sa1, sa2, trunk)
	n.sender = n.Host("ma1")
	n.uplink = n.Link(n.sender, sa1, edge).From(n.sender)
	for i, router := range []*lab.Host{sa1, sa2, sa2} {
		members := n.Hosts(fmt.Sprintf("m%c", 'b'+i), 2)
		for _, member := range members {
			n.Link(member, router, edge)
		}
		n.receivers = append(n.receivers, members...)
	}
	return n
}
