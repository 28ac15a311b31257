package gathering

import (
	"fmt"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/sdk/gather"
)

// Terminal is a client's machine.
type Terminal struct {
	Name string
	// Delay is the delay to the server in one direction, without queues.
	Delay time.Duration
	// Rate is what its own link carries; zero means enough to queue nothing.
	Rate link.Rate
	// Router says through which of the routers it sends; zero means directly to the last.
	Router int
	Share  gather.Share
}

// Case is one network, with one controller.
type Case struct {
	Seed       uint64
	Controller string
	Congestion string // of clients and interferers
	Access     link.Shape
	// Routers are links before the access link's router, counted from one.
	Routers   []link.Shape
	Terminals []Terminal
	// Others are machines whose traffic nobody controls. It ends at the server or, with Past, behind the last router.
	Others []Other
	// Policy holds further settings of the gatherer, Flags its command line.
	Policy gather.Policy
	Flags  []string
}

// Other is a machine that does not upload to the gatherer.
type Other struct {
	Name   string
	Delay  time.Duration
	Router int
	Past   bool // what it sends does not go over the access link
}

const (
	// fast is a link that queues nothing here.
	fast = 200 * link.Mbit
	// accessDelay is the part of all delays that is the access link's.
	accessDelay = 2 * time.Millisecond
	// routerDelay is the part of a delay that is a router's link's.
	routerDelay = 2 * time.Millisecond
)

// network is a case's machines and links.
type network struct {
	*lab.Lab
	manager, server, past *lab.Host
	hosts                 map[string]*lab.Host
	access                lab.Way
	back                  map[string]lab.Way // over which terminals are answered
	routers               []lab.Way
}

// build declares the network of a case.
//
//	terminals ── router n ──┐
//	terminals ──────────── edge ── server
//	                        └───── past
func (c Case) build() *network {
	n := &network{Lab: lab.New(c.Seed), hosts: map[string]*lab.Host{}, back: map[string]lab.Way{}}
	n.manager = n.Host("manager")
	edge := n.Router("edge")
	n.server, n.past = n.Host("server"), n.Host("past")
	access := c.Access
	access.Delay = accessDelay
	back := link.Shape{Rate: fast, Delay: accessDelay}
	n.access = n.Link(edge, n.server, access).Back(back).From(edge)
	n.Link(edge, n.past, link.Shape{Rate: fast, Delay: accessDelay})
	at := []*lab.Host{edge}
	for i, shape := range c.Routers {
		router := n.Router(fmt.Sprint("router", i+1))
		shape.Delay = routerDelay
		n.routers = append(n.routers, n.Link(router, edge, shape).Back(link.Shape{Rate: fast, Delay: routerDelay}).From(router))
		at = append(at, router)
	}
	attach := func(name string, delay time.Duration, rate link.Rate, router int) {
		host := n.Host(name)
		delay -= accessDelay
		if router > 0 {
			delay -= routerDelay
		}
		if rate == 0 {
			rate = fast
		}
		n.back[name] = n.Link(host, at[router], link.Shape{Rate: rate, Delay: max(0, delay)}).From(at[router])
		n.hosts[name] = host
	}
	for _, t := range c.Terminals {
		attach(t.Name, t.Delay, t.Rate, t.Router)
	}
	for _, o := range c.Others {
		attach(o.Name, o.Delay, 0, o.Router)
	}
	return n
}

// policy returns the gatherer's policy.
func (c Case) policy() gather.Policy {
	policy := c.Policy
	for _, t := range c.Terminals {
		if t.Share != (gather.Share{}) {
			policy.Rules = append(policy.Rules, gather.Rule{Clients: []string{t.Name}, Share: t.Share})
		}
	}
	return policy
}
