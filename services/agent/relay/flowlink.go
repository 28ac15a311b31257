package relay

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/datagram"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/pause"
	wiredatagram "github.com/groupcast/groupcast/internal/wire/datagram"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// feed feeds a child as long as the tree has it here.
func (f *flow) feed(asked *link.Asked, name string) {
	conn, err := asked.Welcome(wire.Welcome{TreeVersion: f.version()})
	if err != nil {
		f.log.Info("a child was not welcomed", "child", name, "error", err)
		return
	}
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	if err := f.feedOver(ctx, cancel, conn, name); ctx.Err() == nil {
		f.log.Info("the link to a child ended", "child", name, "error", err)
	}
}

func (f *flow) feedOver(ctx context.Context, cancel context.CancelFunc, conn *link.Conn, name string) error {
	secret, remote, err := endsOf(conn)
	if err != nil {
		conn.Close()
		return err
	}
	out := datagram.NewOut(secret, conn.RoundTrip(), f.code, remote.Addr())
	defer f.hub.port.open(secret.Link(), out.Take)()
	defer f.attach(name, out, cancel)()
	var counted datagram.Use
	count := func() (use datagram.Use) {
		use = out.Use()
		f.hub.Metrics.used(use, counted)
		counted = use
		return use
	}
	defer count()
	return link.Keep(ctx, conn, func() {
		trips, use := out.Check(time.Now()), count()
		if trips {
			f.log.Warn("too much is lost for too long on the way to a child; nothing is sent to it for a while", "child", name, "sent", use.Sent, "lost", use.Lost)
		}
	})
}

func endsOf(conn *link.Conn) (secret wiredatagram.Secret, remote netip.AddrPort, err error) {
	if secret, err = conn.Secret(); err == nil {
		remote, err = conn.Remote()
	}
	return secret, remote, err
}

// run keeps a link to the parent, if this agent is to dial it.
func (f *flow) run() {
	wait := link.FirstPause
	for f.ctx.Err() == nil {
		parent, changed := f.parent()
		if len(parent.GetAddresses()) == 0 {
			select {
			case <-changed:
			case <-f.ctx.Done():
			}
			continue
		}
		begun := time.Now()
		err := f.askParent(parent)
		if now, _ := f.parent(); f.ctx.Err() != nil || !link.SameNeighbour(now, parent) {
			wait = link.FirstPause
			continue
		}
		f.log.Info("the parent is lost", "parent", parent.GetName(), "error", err)
		f.lose(parent)
		if time.Since(begun) > link.LongPause {
			wait = link.FirstPause
		}
		select {
		case <-changed:
		case <-f.ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, link.LongPause)
	}
}

func (f *flow) parent() (*groupv1.Neighbour, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.assignment.GetEnded() {
		return nil, f.changed
	}
	return f.assignment.GetParent(), f.changed
}

// lose has it reported that a parent cannot be reached, unless the tree has another one here, or none, meanwhile; nil says that the parent
// can be.
func (f *flow) lose(parent *groupv1.Neighbour) {
	f.mu.Lock()
	before := f.lost
	if parent == nil || link.SameNeighbour(f.assignment.GetParent(), parent) {
		f.lost = parent.GetName()
	}
	changed := f.lost != before
	f.mu.Unlock()
	if changed {
		f.hub.Report()
	}
}

// askParent asks a parent to be fed, and takes what it sends until that ends.
func (f *flow) askParent(parent *groupv1.Neighbour) error {
	ctx, release, err := f.take(f.ctx)
	if err != nil {
		return err
	}
	defer release()
	if now, _ := f.parent(); !link.SameNeighbour(now, parent) {
		return errMoved
	}
	f.mu.Lock()
	hello := wire.Hello{
		Stripes: 1, TreeVersion: f.assignment.GetTreeVersion(), Datagrams: true, Capability: f.assignment.GetCapability(),
	}
	id := f.assignment.GetDelivery()
	f.mu.Unlock()
	if hello.Delivery, err = parseID(id); err != nil {
		return err
	}
	peer := identity.Named(parent)
	var failed error
	for _, address := range parent.GetAddresses() {
		conn, _, err := f.hub.Contacts.Ask(ctx, address, peer, hello, link.Answer{})
		if err == nil {
			f.lose(nil)
			return f.takeFrom(ctx, conn)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// takeOffer takes what the sender offers.
func (f *flow) takeOffer(asked *link.Asked) {
	f.inlet.end() // the sender has come again
	waiting, cancel := context.WithTimeout(f.ctx, assignPatience)
	defer cancel()
	ctx, release, err := f.take(waiting)
	if err != nil {
		asked.Refuse(wire.Stopping, "busy with an earlier link")
		return
	}
	defer release()
	f.awaitChildren(ctx)
	if err := f.welcome(ctx, asked); err != nil && ctx.Err() == nil {
		f.log.Info("the link from the sender ended", "error", err)
	}
}

// welcome takes datagrams from the sender, which may begin when it is welcomed. Its first datagram shows
// where reports are to be sent.
func (f *flow) welcome(ctx context.Context, asked *link.Asked) error {
	secret, err := asked.Secret()
	if err != nil {
		asked.Refuse(wire.Denied, "no secret")
		return err
	}
	in, stop := f.listen(secret, netip.AddrPort{})
	defer stop()
	conn, err := asked.Welcome(wire.Welcome{TreeVersion: f.version()})
	if err != nil {
		return err
	}
	return f.keep(ctx, conn, in)
}

const (
	// absentPatience is how long a child that has no link yet is waited for, and silentPatience how long
	// one that has: it may be waiting for children of its own.
	absentPatience = 2 * time.Second
	silentPatience = 3 * time.Second
	// childrenPoll is how often it is checked whether the children are there.
	childrenPoll = 5 * time.Millisecond
)

// awaitChildren waits, the first time, until all children can be fed: what comes before is
// lost to them. An agent says where it is when it need not wait any more, so that all of a
// tree is ready when its sender is welcomed.
func (f *flow) awaitChildren(ctx context.Context) {
	begun := time.Now()
	for !f.ready.Load() && f.misses(time.Since(begun)) && pause.For(ctx, childrenPoll) {
	}
	f.ready.Store(true)
}

// misses reports whether a child that is worth waiting for cannot be fed yet.
func (f *flow) misses(waited time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, neighbour := range f.assignment.GetChildren() {
		child := f.children[childName(identity.Named(neighbour))]
		switch {
		case child == nil && waited < absentPatience, child != nil && !child.isReady() && waited < silentPatience:
			return true
		}
	}
	return false
}

// takeFrom takes datagrams from a parent that this agent has dialled. Its reports show the parent where to send them.
func (f *flow) takeFrom(ctx context.Context, conn *link.Conn) error {
	secret, remote, err := endsOf(conn)
	if err != nil {
		conn.Close()
		return err
	}
	in, stop := f.listen(secret, remote)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	waiting.Go(func() {
		f.awaitChildren(ctx)
		f.tell(in)
	})
	return f.keep(ctx, conn, in)
}

// listen takes the datagrams of a link until stop is called.
func (f *flow) listen(secret wiredatagram.Secret, parent netip.AddrPort) (in *datagram.In, stop func()) {
	in = datagram.NewIn(secret, parent)
	return in, f.hub.port.open(secret.Link(), func(whole []byte, from netip.AddrPort, now time.Time) {
		f.arrived(in, whole, from, now)
	})
}

// keep keeps a link, and reports what comes.
func (f *flow) keep(ctx context.Context, conn *link.Conn, in *datagram.In) error {
	return link.Keep(ctx, conn, func() {
		if f.ready.Load() {
			f.tell(in)
		}
	})
}

// tell tells the parent of a link what came, and where this agent is.
func (f *flow) tell(in *datagram.In) {
	if report, to, ok := in.Report(time.Now()); ok {
		_ = f.hub.port.socket.Send(report, to) // the next one may get through
	}
}
