package relay_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/datagram"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/udp"
	wiredatagram "github.com/groupcast/groupcast/internal/wire/datagram"
)

// newFlowWorld returns a stream in datagrams without managers.
func newFlowWorld(t *testing.T, spec *groupv1.DatagramSpec) *world {
	w := newWorld(t, 0, &groupv1.DeliverySpec{Datagrams: spec})
	w.spec.Kind, w.spec.LengthUnknown = groupv1.DeliveryKind_DELIVERY_KIND_STREAM, true
	return w
}

// end is one end of a stream in datagrams: its sender, or a member.
type end struct {
	conn   *link.Conn
	secret wiredatagram.Secret
	remote netip.AddrPort
	socket *udp.Socket
}

// connect opens a link to an agent, as the sender or a member.
func (w *world) connect(name, to string, duty identity.Duty) (*end, error) {
	w.Helper()
	id := identity.ID{Role: identity.Member, Name: name}
	hello := w.hello(w.capability(id, duty))
	hello.Datagrams, hello.Offer = true, duty == identity.Send
	e := &end{}
	var err error
	if e.conn, _, err = link.Dial(w.Context(), &net.Dialer{}, w.agents[to].address, w.identity(id), identity.ID{Role: identity.Agent, Name: to}, hello); err != nil {
		return nil, err
	}
	w.Cleanup(func() { e.conn.Close() })
	if e.secret, err = e.conn.Secret(); err != nil {
		w.Fatal(err)
	}
	if e.remote, err = e.conn.Remote(); err != nil {
		w.Fatal(err)
	}
	if e.socket, err = datagram.Listen("127.0.0.1:0"); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { e.socket.Close() })
	return e, nil
}

// listener is a member of a stream in datagrams.
type listener struct {
	*end
	ended chan error // how the link ended
	loses uint64     // every so many of the datagrams that come are lost; 0 is none

	mu    sync.Mutex
	came  uint64
	got   map[uint64]string
	extra int // how many datagrams of parity came
}

// listen has an agent feed a member, from when this returns until the test ends.
func (w *world) listen(name, from string) *listener {
	w.Helper()
	return w.listenLosing(0, name, from)
}

// listenLosing is listen for a member that loses every so many of what comes.
func (w *world) listenLosing(loses uint64, name, from string) *listener {
	w.Helper()
	e, err := w.connect(name, from, identity.Receive)
	if err != nil {
		w.Fatal(err)
	}
	l := &listener{end: e, ended: make(chan error, 1), loses: loses, got: make(map[uint64]string)}
	in := datagram.NewIn(e.secret, e.remote)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		_ = e.socket.Receive(func(whole []byte, at netip.AddrPort) { l.take(in, whole, at) }, func() {})
	})
	running.Go(func() {
		l.ended <- link.Keep(ctx, e.conn, func() {
			if report, to, ok := in.Report(time.Now()); ok {
				_ = e.socket.Send(report, to)
			}
		})
	})
	w.Cleanup(func() {
		cancel()
		e.socket.Close()
		running.Wait()
	})
	return l
}

func (l *listener) take(in *datagram.In, whole []byte, at netip.AddrPort) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.came++; l.loses > 0 && l.came%l.loses == 0 {
		return
	}
	h, payload, err := in.Open(whole, at, time.Now())
	if err != nil {
		return
	}
	if h.Kind == wiredatagram.Data {
		l.got[h.Sequence] = string(payload)
	} else {
		l.extra++
	}
}

func (l *listener) has() (datagrams, parity int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.got), l.extra
}

// talker is the sender of a stream in datagrams.
type talker struct {
	*end
	out   *datagram.Out
	batch *datagram.Batch
}

// awaitFed waits until an agent can feed children.
func (w *world) awaitFed(name string, children ...string) {
	w.Helper()
	w.await(name+" can feed its children", func() bool {
		ready := 0
		for _, child := range w.agents[name].Reports()[0].GetChildren() {
			if child.GetConnected() && slices.Contains(children, child.GetName()) {
				ready++
			}
		}
		return ready == len(children)
	})
}

// talk has the sender feed an agent, when the tree is ready.
func (w *world) talk(to string) *talker {
	w.Helper()
	var e *end
	w.await("the agent knows the sender", func() (ok bool) {
		var err error
		e, err = w.connect("sender", to, identity.Send)
		return err == nil
	})
	t := &talker{e, datagram.NewOutTo(e.secret, time.Millisecond, 0, e.remote), datagram.NewBatch(e.socket)}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		_ = e.socket.Receive(func(whole []byte, at netip.AddrPort) { t.out.Take(whole, at, time.Now()) }, func() {})
	})
	running.Go(func() { _ = link.Keep(ctx, e.conn, func() {}) })
	w.Cleanup(func() {
		cancel()
		e.socket.Close()
		running.Wait()
	})
	return t
}

// say sends datagrams, except for some that are lost on the way.
func (t *talker) say(from, to uint64, lost ...uint64) {
	for sequence := from; sequence < to; sequence++ {
		if !slices.Contains(lost, sequence) {
			t.add(wiredatagram.Header{Kind: wiredatagram.Data, Sequence: sequence, Sent: sequence}, []byte(spoken(sequence)))
		}
	}
}

func (t *talker) add(h wiredatagram.Header, payload []byte) {
	t.out.Add(t.batch, h, payload, time.Now())
	t.batch.Flush()
}

func spoken(sequence uint64) string { return fmt.Sprintf("datagram %d", sequence) }

// wantAll waits until a member has all datagrams before a number, and checks them.
func (w *world) wantAll(name string, l *listener, before uint64) {
	w.Helper()
	w.await(name+" has all", func() bool { n, _ := l.has(); return uint64(n) == before })
	l.mu.Lock()
	defer l.mu.Unlock()
	for sequence := range before {
		if l.got[sequence] != spoken(sequence) {
			w.Errorf("%s: datagram %d is %q", name, sequence, l.got[sequence])
		}
	}
}

// childOf returns what an agent reports of a child.
func (w *world) childOf(agent, name string) *groupv1.ChildReport {
	for _, child := range w.agents[agent].Reports()[0].GetChildren() {
		if child.GetName() == name {
			return child
		}
	}
	return nil
}

// What links carried is still told when they are gone, together with earlier links of the same child, and at once when nothing happens any
// more.
func TestLastReportHasAll(t *testing.T) {
	w := newFlowWorld(t, &groupv1.DatagramSpec{})
	w.start("sa1", 1<<20)
	w.tree("sa1", "sender", "r1")
	first := w.listen("r1", "sa1")
	w.awaitFed("sa1", "r1")
	sender := w.talk("sa1")
	sender.say(0, 10)
	w.wantAll("r1", first, 10)
	first.conn.Close()
	w.await("the link is gone", func() bool { return !w.childOf("sa1", "r1").GetConnected() })
	second := w.listen("r1", "sa1")
	w.awaitFed("sa1", "r1")
	sender.say(10, 30)
	w.await("r1 has the rest", func() bool { n, _ := second.has(); return n == 20 })
	if w.agents["sa1"].Reports()[0].GetResting() {
		t.Error("the agent rests while data flows")
	}

	w.assign("sa1", true)
	second.conn.Close()
	sender.conn.Close()
	w.await("the agent rests", func() bool { return w.agents["sa1"].Reports()[0].GetResting() })
	select {
	case <-w.agents["sa1"].Wake():
	case <-time.After(patience):
		t.Error("that it rests is not reported at once")
	}
	r1 := w.childOf("sa1", "r1")
	if use := r1.GetDatagrams(); use.GetSent() != 30 || r1.GetSinceSent() == nil {
		t.Errorf("what r1 was sent: %v", r1)
	}
	if got := w.agents["sa1"].count(w, "datagrams_sent"); got != 30 {
		t.Errorf("%v datagrams are counted", got)
	}
}

// atOnce is how many of these datagrams may leave at once whatever a link's round trip is.
const atOnce = 60

func TestDatagramsReachEveryMember(t *testing.T) {
	w := newFlowWorld(t, &groupv1.DatagramSpec{})
	w.start("sa1", 1<<20)
	w.start("sa2", 1<<20)
	w.tree("sa1", "sender", "sa2", "r1", "r2")
	w.tree("sa2", "sa1", "r3")
	members := map[string]*listener{"r1": w.listen("r1", "sa1"), "r2": w.listen("r2", "sa1"), "r3": w.listen("r3", "sa2")}
	w.awaitFed("sa2", "r3")
	w.awaitFed("sa1", "sa2", "r1", "r2")
	w.talk("sa1").say(0, atOnce)
	for name, l := range members {
		w.wantAll(name, l, atOnce)
	}
	if got := w.agents["sa1"].count(w, "datagrams_received"); got != atOnce {
		t.Errorf("SA1 received %v datagrams", got)
	}
	bytes := 0.0
	for sequence := range uint64(atOnce) {
		bytes += float64(len(spoken(sequence)))
	}
	if got := w.agents["sa1"].count(w, "datagrams_received_bytes"); got != bytes {
		t.Errorf("SA1 received %v bytes, want %v", got, bytes)
	}
	w.await("what was sent is counted", func() bool {
		return w.agents["sa1"].count(w, "datagrams_sent") == 3*atOnce && w.agents["sa1"].count(w, "datagrams_sent_bytes") == 3*bytes
	})
	for _, report := range w.agents["sa1"].Reports() {
		for _, child := range report.GetChildren() {
			if use := child.GetDatagrams(); use.GetSent() != atOnce || use.GetHeld() != 0 || use.GetAllowedBytesPerSecond() == 0 {
				t.Errorf("%s: %v", child.GetName(), use)
			}
		}
	}
}

// The sender begins when all of the tree is ready, however far below a node is late.
func TestLateLeafIsWaitedFor(t *testing.T) {
	w := newFlowWorld(t, &groupv1.DatagramSpec{})
	w.start("sa1", 1<<20)
	w.start("sa2", 1<<20)
	w.tree("sa1", "sender", "sa2", "r1")
	w.tree("sa2", "sa1", "r2")
	members := map[string]*listener{"r1": w.listen("r1", "sa1")}
	said := make(chan struct{})
	go func() {
		defer close(said)
		w.talk("sa1").say(0, atOnce)
	}()
	time.Sleep(500 * time.Millisecond) // longer than all others take, and less than the late one is waited for
	members["r2"] = w.listen("r2", "sa2")
	<-said
	for name, l := range members {
		w.wantAll(name, l, atOnce)
	}
}

// What is lost on one link is repaired at its end, with the parity for all links that follow.
func TestAgentRepairs(t *testing.T) {
	code := datagram.Code{Data: 10, Parity: 2}
	w := newFlowWorld(t, &groupv1.DatagramSpec{ParityData: 10, ParityShards: 2})
	w.start("sa1", 1<<20)
	w.tree("sa1", "sender", "r1")
	l := w.listen("r1", "sa1")
	w.awaitFed("sa1", "r1")
	sender := w.talk("sa1")
	encoder := datagram.NewEncoder(code, time.Hour)
	sender.say(0, 10, 3)
	var shards []datagram.Shard
	for sequence := range uint64(10) {
		shards = append(shards, encoder.Add(sequence, sequence, []byte(spoken(sequence)), time.Now())...)
	}
	sender.add(shards[1].Header(), shards[1].Block) // the other datagram of parity is lost, too
	w.wantAll("r1", l, 10)
	w.await("all parity is there", func() bool { _, parity := l.has(); return parity == code.Parity })
	if got := w.agents["sa1"].count(w, "datagrams_recovered"); got != 1 {
		t.Errorf("SA1 recovered %v datagrams", got)
	}
}

// A child that never says where it is holds up nobody.
func TestSilentChildIsAlone(t *testing.T) {
	w := newFlowWorld(t, &groupv1.DatagramSpec{})
	w.start("sa1", 1<<20)
	w.tree("sa1", "sender", "r1", "silent")
	silent, err := w.connect("silent", "sa1", identity.Receive)
	if err != nil {
		t.Fatal(err)
	}
	go link.Keep(t.Context(), silent.conn, func() {})
	l := w.listen("r1", "sa1")
	w.awaitFed("sa1", "r1")
	w.talk("sa1").say(0, 50)
	w.wantAll("r1", l, 50)
	if use := w.childOf("sa1", "silent").GetDatagrams(); use.GetSent() != 0 || use.GetHeld() != 50 {
		t.Errorf("to the silent child: %v", use)
	}
}

// A link on which half is lost, whatever its pace, is stopped after five bad intervals: nothing more is sent over it for ten seconds, and
// the other children miss nothing.
func TestLinkThatLosesMostIsStopped(t *testing.T) {
	w := newFlowWorld(t, &groupv1.DatagramSpec{})
	w.start("sa1", 1<<20)
	w.tree("sa1", "sender", "r1", "r2")
	l := w.listen("r1", "sa1")
	w.listenLosing(2, "r2", "sa1")
	w.awaitFed("sa1", "r1", "r2")
	sender := w.talk("sa1")
	var said uint64
	speak := func(times int) {
		for range times {
			sender.say(said, said+1)
			said++
			time.Sleep(5 * time.Millisecond)
		}
	}
	trips := func() float64 { return w.agents["sa1"].count(w, "circuit_breaker_trips") }
	for begun := time.Now(); trips() == 0; speak(20) {
		if time.Since(begun) > patience {
			t.Fatalf("nothing trips; to the child on it: %v", w.childOf("sa1", "r2").GetDatagrams())
		}
	}
	before := w.childOf("sa1", "r2").GetDatagrams()
	speak(400)
	after := w.childOf("sa1", "r2").GetDatagrams()
	if after.GetSent() != before.GetSent() || after.GetHeld() < before.GetHeld()+300 {
		t.Errorf("on a link that is stopped: %v, and before that %v", after, before)
	}
	if got := trips(); got != 1 {
		t.Errorf("%v links are stopped, want the one", got)
	}
	w.wantAll("r1", l, said)
}

// A node that is not a child by the tree is not fed, nor one that asks for bytes; a child that the tree no longer has is not fed any more.
func TestStrangersAreNotFed(t *testing.T) {
	w := newFlowWorld(t, &groupv1.DatagramSpec{})
	w.start("sa1", 1<<20)
	w.tree("sa1", "sender", "r1", "r2")
	first := w.listen("r1", "sa1")
	if _, err := w.connect("stranger", "sa1", identity.Receive); err == nil {
		t.Error("a stranger is fed")
	}
	id := identity.ID{Role: identity.Member, Name: "r2"}
	_, _, err := link.Dial(t.Context(), &net.Dialer{}, w.agents["sa1"].address, w.identity(id),
		identity.ID{Role: identity.Agent, Name: "sa1"}, w.hello(w.capability(id, identity.Receive)))
	if err == nil {
		t.Error("a stream in datagrams comes in bytes")
	}
	w.version++
	w.tree("sa1", "sender", "r2")
	select {
	case <-first.ended:
	case <-time.After(patience):
		t.Error("who is no child any more is kept")
	}
}
