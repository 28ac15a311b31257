// Package paper004 reproduces the evaluation of paper 004, SOMA (004 §VI).
package paper004

import (
	"fmt"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/internal/algo/soma/model"
)

// The parameters of 004 §VI.
const (
	fileSize      = 10_000_000
	clientsPerLAN = 4
	artpMax       = 600 * time.Microsecond
	meanARTP      = 120 * time.Microsecond // with 4 clients, by equation (9)
	wiredRate     = 100 * link.Mbit
	wirelessRate  = 1.55 // Mbit/s "at the transport layer"
	firstTimeout  = 80 * time.Millisecond
	lastTimeout   = 120 * time.Millisecond
	timeoutStep   = 10 * time.Millisecond
)

// onTheWire is the size of a packet with 512 bytes of payload as links count it: with the headers of UDP and IP.
const onTheWire = 523 + 28

// routerBuffer is how many packets a router holds for a slow LAN; the paper does not say.
const routerBuffer = 100

// slowRate is what a link has to carry for 1.55 Mbit/s of SOMA's packets, which do not include the headers below them.
const slowRate link.Rate = 1_550_000 * onTheWire / 523

// campus is "the intra-campus environment": a wired LAN with the server, and slow LANs in a
// row behind it, each behind a router; four clients in every LAN.
type campus struct {
	*lab.Lab
	server  *lab.Host
	uplink  lab.Way // from the server
	lans    [][]*lab.Host
	routers []*lab.Host
	slow    []lab.Way // into the slow LANs
}

func newCampus(seed uint64, slowLANs int) *campus {
	c := &campus{Lab: lab.New(seed)}
	here := c.LAN("wired")
	c.server = c.Host("server")
	c.uplink = c.Link(c.server, here, link.Shape{Rate: wiredRate}).From(c.server)
	c.populate(here, clientsPerLAN)
	for i := range slowLANs {
		router, there := c.Router(fmt.Sprintf("router%d", i+1)), c.LAN(fmt.Sprintf("wireless%d", i+1))
		c.Link(router, here, link.Shape{})
		down := link.Shape{Rate: slowRate, Queue: link.Packets(routerBuffer)}
		c.slow = append(c.slow, c.Link(router, there, down).From(router))
		c.routers = append(c.routers, router)
		c.populate(there, clientsPerLAN)
		here = there
	}
	return c
}

// newCrowd returns a single LAN of plain cables.
func newCrowd(seed uint64, clients int) *campus {
	c := &campus{Lab: lab.New(seed)}
	here := c.LAN("crowd")
	c.server = c.Host("server")
	c.Link(c.server, here, link.Shape{})
	c.populate(here, clients)
	return c
}

func (c *campus) populate(lan *lab.LAN, clients int) {
	number := len(c.lans)
	hosts := c.Hosts(fmt.Sprintf("client%d-", number), clients)
	for _, host := range hosts {
		c.Link(host, lan, link.Shape{})
	}
	c.lans = append(c.lans, hosts)
}

// route makes the routers pass multicast on.
func (c *campus) route() error {
	for _, router := range c.routers {
		if err := router.RouteMulticast(); err != nil {
			return err
		}
	}
	return nil
}

// path returns the network as the model describes it.
func path(slowLANs int) model.Path {
	return model.Path{
		Packets: model.Paper, C1: model.Rate(wiredRate), C2: wirelessRate * model.Mbit, N1: 1, N2: slowLANs,
	}
}
