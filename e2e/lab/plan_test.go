package lab

import (
	"strings"
	"testing"

	"github.com/groupcast/groupcast/e2e/lab/link"
)

func TestAddressesAndRoutesFollowFromTheLinks(t *testing.T) {
	l := New(1)
	a, b := l.Host("a"), l.Host("b")
	r1, r2, r3 := l.Router("r1"), l.Router("r2"), l.Router("r3")
	lan := l.LAN("lan")
	l.Link(a, r1, link.Shape{})
	l.Link(r1, r2, link.Shape{})
	l.Link(r2, r3, link.Shape{})
	l.Link(r1, r3, link.Shape{}) // the shorter way
	l.Link(r3, lan, link.Shape{})
	l.Link(b, lan, link.Shape{})
	const want = `
a
  eth0 10.0.0.1/24
  to 10.0.1.0/24 via 10.0.0.2 on eth0
  to 10.0.3.0/24 via 10.0.0.2 on eth0
  to 10.0.2.0/24 via 10.0.0.2 on eth0
  to 10.0.4.0/24 via 10.0.0.2 on eth0
b
  eth0 10.0.4.2/24
  to 10.0.2.0/24 via 10.0.4.1 on eth0
  to 10.0.3.0/24 via 10.0.4.1 on eth0
  to 10.0.1.0/24 via 10.0.4.1 on eth0
  to 10.0.0.0/24 via 10.0.4.1 on eth0
r1
  eth0 10.0.0.2/24
  eth1 10.0.1.1/24
  eth2 10.0.3.1/24
  to 10.0.2.0/24 via 10.0.1.2 on eth1
  to 10.0.4.0/24 via 10.0.3.2 on eth2
`
	if got := l.String(); !strings.HasPrefix(got, want[1:]) {
		t.Errorf("plan:\n%s\nwant it to begin:%s", got, want)
	}
}

func TestHostsDoNotForward(t *testing.T) {
	l := New(1)
	a, b, c := l.Host("a"), l.Host("b"), l.Host("c")
	l.Link(a, b, link.Shape{})
	l.Link(b, c, link.Shape{})
	p, err := l.plan()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range p.routes[a] {
		if r.to.Contains(c.Addr()) {
			t.Errorf("a has route %v through a host that is no router", r.to)
		}
	}
}

func TestHostIsReachedByAnyOfItsAddresses(t *testing.T) {
	l := New(1)
	a, b, c := l.Host("a"), l.Host("b"), l.Host("c")
	l.Link(b, a, link.Shape{})
	l.Link(b, c, link.Shape{})
	p, err := l.plan()
	if err != nil {
		t.Fatal(err)
	}
	if routes := p.routes[c]; len(routes) != 1 || routes[0].to.String() != "10.0.0.1/32" || routes[0].via != b.ports[1].address.Addr() {
		t.Errorf("c has routes %+v, want one to 10.0.0.1/32", routes)
	}
}

func TestLinkedLANsShareASubnet(t *testing.T) {
	l := New(1)
	west, east := l.LAN("west"), l.LAN("east")
	a, b := l.Host("a"), l.Host("b")
	l.Link(a, west, link.Shape{})
	l.Link(b, east, link.Shape{})
	l.Link(west, east, link.Shape{})
	if _, err := l.plan(); err != nil {
		t.Fatal(err)
	}
	if a.ports[0].address.Masked() != b.ports[0].address.Masked() {
		t.Errorf("subnets %v and %v", a.ports[0].address, b.ports[0].address)
	}
}

func TestCheckNamesEveryMistake(t *testing.T) {
	l := New(1)
	a := l.Host("a")
	l.Host("a")
	l.Link(a, a, link.Shape{Loss: 3})
	err := l.check()
	if err == nil {
		t.Fatal("a wrong topology is accepted")
	}
	for _, want := range []string{"two nodes are called a", "loss 3 is no probability", "joins a node to itself"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}
