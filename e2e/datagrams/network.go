package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/groupcast/groupcast/e2e/fleet"
	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/sdk"
)

const (
	group    = "stream"
	members  = 4
	linkRate = 100 * link.Mbit
	delay    = 10 * time.Millisecond
)

// network is a tree of three levels, every link of which loses as much as the others:
//
//	                          ┌ 3 ┬ member1
//	sender ─ 1 ─ A ─┬─ 2 ─ B ─┘   └ member2
//	                └─ 2 ─ C ──── 3 ┬ member3
//	                                └ member4
//
// There is an agent at each of A, B and C, so that every link of the delivery's tree is one of the
// network's. Plain datagrams cross three links on their way.
type network struct {
	*lab.Lab
	manager, sender *lab.Host
	routers         [3]*lab.Host
	members         []*lab.Host
	// client and server are beside the stream on the link from A to B.
	client, server *lab.Host
}

// newNetwork declares the network. The bottleneck is the link from A to B; zero means as fast as the others.
func newNetwork(seed uint64, loss float64, bottleneck link.Rate) *network {
	l := lab.New(seed)
	n := &network{Lab: l, manager: l.Host("manager"), sender: l.Host("sender")}
	for i, name := range []string{"A", "B", "C"} {
		n.routers[i] = l.Router(name)
	}
	shape := link.Shape{Rate: linkRate, Delay: delay, Queue: link.Packets(200), Loss: loss}
	l.Link(n.routers[0], n.sender, shape)
	narrow := shape
	if bottleneck > 0 {
		narrow.Rate, narrow.Queue = bottleneck, link.Packets(40)
	}
	l.Link(n.routers[0], n.routers[1], narrow)
	l.Link(n.routers[0], n.routers[2], shape)
	for i := range members {
		member := l.Host(fmt.Sprintf("member%d", i+1))
		l.Link(n.routers[1+2*i/members], member, shape)
		n.members = append(n.members, member)
	}
	n.server, n.client = l.Host("server"), l.Host("client")
	l.Link(n.routers[0], n.server, link.Shape{Rate: linkRate})
	l.Link(n.routers[1], n.client, link.Shape{Rate: linkRate})
	return n
}

// spec is a stream and its requirements.
type spec struct {
	count        int
	size         int
	interval     time.Duration
	fresh        time.Duration
	data, parity int
}

// tree is a stream of ours in progress.
type tree struct {
	fleet     *fleet.Fleet
	sender    *lab.Process
	receivers []*lab.Process
	dir       string
}

// deploy starts agents and members, and then the stream.
func (n *network) deploy(ctx context.Context, s spec) (t *tree, err error) {
	t = &tree{}
	if t.fleet, err = fleet.Start(ctx, n.manager); err != nil {
		return t, err
	}
	if t.dir, err = os.MkdirTemp("", "groupcast-datagrams-"); err != nil {
		return t, err
	}
	for _, router := range n.routers {
		if _, err := t.fleet.Agent(ctx, router, router.Name(), t.dir+"/"+router.Name()); err != nil {
			return t, err
		}
	}
	if _, err := t.fleet.Client.CreateGroup(ctx, group, sdk.Policy{}); err != nil {
		return t, err
	}
	for i, host := range n.members {
		process, err := n.member(ctx, t, host, "--as", host.Name(), "--zone", n.routers[1+2*i/members].Name())
		if err != nil {
			return t, err
		}
		t.receivers = append(t.receivers, process)
	}
	if err := t.fleet.AwaitMembers(ctx, group, members); err != nil {
		return t, err
	}
	t.sender, err = n.member(ctx, t, n.sender, "--as", "origin", "--node", n.routers[0].Name(),
		"--send", fmt.Sprint(s.count), "--size", fmt.Sprint(s.size), "--interval", s.interval.String(),
		"--fresh", s.fresh.String(), "--data", fmt.Sprint(s.data), "--parity", fmt.Sprint(s.parity))
	return t, err
}

func (n *network) member(ctx context.Context, t *tree, host *lab.Host, arguments ...string) (*lab.Process, error) {
	process, err := t.fleet.Prepare(ctx, host, "e2e/datagrams/member", append([]string{"--group", group}, arguments...)...)
	if err != nil {
		return nil, err
	}
	return process, process.Start()
}

// endPatience bounds how much longer than planned a stream may take to end.
const endPatience = time.Minute

// wait waits until a stream has ended at all members.
func (t *tree) wait(ctx context.Context, s spec) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.count)*s.interval+endPatience)
	defer cancel()
	for _, process := range append(t.receivers, t.sender) {
		select {
		case <-process.Ended():
			if err := process.Wait(); err != nil {
				return fmt.Errorf("%w; it wrote: %.2000s", err, process.Output())
			}
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; it wrote: %.2000s", process.Name, ctx.Err(), process.Output())
		}
	}
	return nil
}

func (t *tree) close() error { return errors.Join(t.fleet.Close(), os.RemoveAll(t.dir)) }
