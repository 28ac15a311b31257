package faults

import (
	"bytes"
	"os"
	"sync"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/fault"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

const (
	// datagramSize and datagramPause are the size of a stream's datagrams and the time between two of them.
	datagramSize  = 1000
	datagramPause = 10 * time.Millisecond
)

// Datagrams is a stream in datagrams that is being pushed.
type Datagrams struct {
	*Net
	*Push
	ended  chan struct{}
	saying sync.WaitGroup
	once   sync.Once
}

// PushDatagrams pushes a stream in datagrams, a hundred per second, until it is ended.
func (n *Net) PushDatagrams(name string, flags ...string) *Datagrams {
	n.Helper()
	n.lossy[name] = true
	p := n.preparePush(Object{Name: name}, "-", append([]string{"--stream", "--datagrams", "--name", name}, flags...))
	read, write, err := os.Pipe()
	n.must(err)
	p.Process.Stdin = read
	n.must(p.Process.Start())
	n.must(read.Close())
	d := &Datagrams{Net: n, Push: p, ended: make(chan struct{})}
	d.saying.Go(func() { d.say(write) })
	n.Cleanup(d.End)
	n.awaitBegin(p)
	return d
}

func (d *Datagrams) say(to *os.File) {
	defer to.Close()
	payload, pace := bytes.Repeat([]byte("datagram"), datagramSize/8), time.NewTicker(datagramPause)
	defer pace.Stop()
	for {
		select {
		case <-d.ended:
			return
		case <-pace.C:
			if _, err := to.Write(payload); err != nil {
				return // the push has ended: whoever waits for its end reports why
			}
		}
	}
}

// End ends the stream.
func (d *Datagrams) End() {
	d.once.Do(func() { close(d.ended) })
	d.saying.Wait()
}

// AwaitMore waits until each of some members has received so many further datagrams.
func (d *Datagrams) AwaitMore(count uint64, members ...string) {
	d.Helper()
	before := d.received()
	d.Await("the members have got more", func() bool {
		now := d.received()
		for _, member := range members {
			if now[member] < before[member]+count {
				return false
			}
		}
		return true
	})
}

// received returns how many datagrams each member has received.
func (d *Datagrams) received() map[string]uint64 {
	d.Helper()
	counts := make(map[string]uint64)
	for _, r := range d.Delivery(d.ID).GetReceipts() {
		counts[r.GetMember()] = r.GetDatagrams().GetReceived()
	}
	return counts
}

// AwaitAccounts waits until the stream has ended, and every member has accounted for all of it.
func (d *Datagrams) AwaitAccounts() *groupv1.Delivery {
	d.Helper()
	ended := d.AwaitEnd(d.Push)
	for _, r := range ended.GetReceipts() {
		c := r.GetDatagrams()
		d.Logf("%s: %v", r.GetMember(), c)
		if r.GetState() != groupv1.ReceiptState_RECEIPT_STATE_COMPLETE || c.GetReceived()+c.GetLate()+c.GetLost() != ended.GetDatagrams() {
			d.Errorf("%s is %v, and has an account of %v for %d datagrams", r.GetMember(), r.GetState(), c, ended.GetDatagrams())
		}
	}
	return ended
}

// Parent returns the node that feeds another in a delivery, both as ROLE/NAME.
func (n *Net) Parent(p *Push, node string) string {
	n.Helper()
	for _, at := range n.Delivery(p.ID).GetTree() {
		if at.GetId() == node {
			return at.GetParent()
		}
	}
	n.Fatalf("%s is not in the tree", node)
	return ""
}

// NoUDP loses datagrams from one machine to another without notice, until the test ends; everything else gets through.
func (n *Net) NoUDP(from, to string) (proof func() error) {
	n.Helper()
	f := &fault.Firewall{Way: n.to(to), From: n.Machine(from).Host}
	n.must(f.Begin())
	return f.Proof
}
