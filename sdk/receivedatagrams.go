package sdk

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/datagram"
	"github.com/groupcast/groupcast/internal/datagram"
	"github.com/groupcast/groupcast/internal/digest"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/udp"
	wiredatagram "github.com/groupcast/groupcast/internal/wire/datagram"
	"github.com/groupcast/groupcast/internal/wire/relay"
)

// Datagram is one datagram of a stream, as a member gets it.
type Datagram struct {
	// Sequence counts what the sender was given, from zero.
	Sequence uint64
	// Sent is when the sender was given it, and Age how old it was when it came, both by the managers' clock.
	Sent time.Time
	Age  time.Duration
	// Recovered says that it had been lost, and was computed from parity.
	Recovered bool
	// Payload is valid until WriteDatagram returns.
	Payload []byte
}

// DatagramWriter is a StreamWriter that wants to know more of each datagram than its payload. WriteDatagram is called in place of
// Write.
type DatagramWriter interface {
	WriteDatagram(Datagram) error
}

// receiveDatagrams takes a stream in datagrams to its end.
func (r *receiving) receiveDatagrams(ctx context.Context) Arrived {
	to, err := r.openStream()
	if err != nil {
		return r.failed(r.whyNotOpened(err), err)
	}
	if _, can := to.(syncer); !can && r.isDurable() {
		return r.closed(r.failed("refused", errNotDurable), to)
	}
	assignment, _ := r.session.attendance.assignment(r.id)
	d := newDatagramReceiver(r, to, assignment.GetLate())
	r.mu.Lock()
	r.counts, r.pauses = d.counts, d.pauses
	r.mu.Unlock()
	one := r.closed(d.receive(ctx), to)
	one.Datagrams = d.counts()
	return one
}

// datagramReceiver is a stream in datagrams on its way here.
type datagramReceiver struct {
	*receiving
	to    StreamWriter
	clock func() time.Time
	fresh time.Duration // what is older is late: the sender's bound or this member's, whichever is less; 0 is no bound

	guard   sync.Mutex
	account *algo.Account
	repair  *datagram.Repair // nil without parity
	bytes   uint64
	hash    digest.Hash
	failure error // of writing

	counted atomic.Pointer[DatagramCounts] // read while a write blocks, too
	writing atomic.Pointer[time.Time]      // since when a write goes on; nil while none does
	left    <-chan struct{}                // closed when receiving is broken off
	waiting *backlog                       // for the program
}

func newDatagramReceiver(r *receiving, to StreamWriter, late bool) *datagramReceiver {
	spec := r.spec.GetDatagrams()
	d := &datagramReceiver{
		receiving: r, to: to, clock: r.session.client.uplink.Clock().Now,
		fresh: stricter(spec.GetFresh().AsDuration(), r.options.Fresh),
	}
	d.account = algo.NewAccount(d.fresh, late)
	if code := (datagram.Code{Data: int(spec.GetParityData()), Parity: int(spec.GetParityShards())}); !code.IsNone() {
		d.repair = datagram.NewRepair(code)
	}
	d.count()
	return d
}

// stricter returns the lesser of two bounds. One that is not positive is no bound.
func stricter(one, other time.Duration) time.Duration {
	if one <= 0 || other <= 0 {
		return max(one, other)
	}
	return min(one, other)
}

func (d *datagramReceiver) counts() *DatagramCounts {
	counts := *d.counted.Load()
	return &counts
}

// pausedAfter is how long a write may take until the program counts as one that pauses.
const pausedAfter = time.Second

// pauses reports whether the program takes no more for now: whoever feeds it is not to blame for what is lost meanwhile. It is not reported
// as trouble, as earlier managers take any trouble for a node that cannot go on.
func (d *datagramReceiver) pauses() bool {
	since := d.writing.Load()
	return since != nil && time.Since(*since) >= pausedAfter
}

// count updates what counts returns. The caller has the guard.
func (d *datagramReceiver) count() {
	counts := DatagramCounts(d.account.Counts())
	d.counted.Store(&counts)
}

// receive takes what comes until the sender has sealed the stream, and a little longer.
func (d *datagramReceiver) receive(ctx context.Context) Arrived {
	d.left, d.waiting = ctx.Done(), newBacklog()
	taking, stop := context.WithCancel(ctx)
	defer stop()
	handed := make(chan struct{})
	go func() {
		defer close(handed)
		d.keepHanding(stop)
	}()
	var ending sync.WaitGroup
	var sealed *groupv1.Assignment
	ending.Go(func() {
		defer stop()
		sealed = d.awaitEnd(taking)
	})
	err := d.keepTaking(taking, d.takeFrom)
	stop()
	ending.Wait()
	d.waiting.end(lastGrace)
	select {
	case <-handed:
	case <-ctx.Done(): // a Write that blocks is not waited for
		return d.failedStream(ctx.Err())
	}
	switch {
	case ctx.Err() != nil:
		return d.failedStream(ctx.Err())
	case d.failure != nil:
		return d.failedStream(&DeliveryError{Reason: "failed", Detail: d.failure.Error()})
	case sealed == nil || fatal(err):
		return d.failedStream(err)
	}
	return d.conclude(sealed)
}

// keepHanding hands on what comes, from whatever parent, until there is no more. If that fails, it has the taking stop.
func (d *datagramReceiver) keepHanding(stop context.CancelFunc) {
	defer stop()
	for one, none := d.waiting.next(unsealed{}); !none; one, none = d.waiting.next(one) {
		if d.arrived(one.header, one.payload); d.failure != nil {
			return
		}
	}
}

// isLeft reports whether receiving was broken off. Nothing is written any more then: the stream may be closed.
func (d *datagramReceiver) isLeft() bool {
	select {
	case <-d.left:
		return true
	default:
		return false
	}
}

// lastGrace is how long datagrams may take that are under way when the end becomes known, if there is no bound, and how long the program may
// then take for those that wait.
const lastGrace = 500 * time.Millisecond

// awaitEnd waits until the stream is sealed, and what was under way then has come or is no longer fresh.
func (d *datagramReceiver) awaitEnd(ctx context.Context) *groupv1.Assignment {
	assignment, err := d.session.attendance.await(ctx, d.id, func(a *groupv1.Assignment) bool { return a.GetSealed() })
	if err != nil {
		return nil
	}
	if pause.For(ctx, stricter(lastGrace, d.fresh)); ctx.Err() != nil {
		return nil
	}
	return assignment
}

func (d *datagramReceiver) conclude(sealed *groupv1.Assignment) Arrived {
	d.guard.Lock()
	d.account.Ended(sealed.GetDatagrams())
	d.count()
	root := d.hash.Sum()
	bytes := d.bytes
	d.guard.Unlock()
	if err := finish(d.to, d.isDurable()); err != nil {
		return d.failedStream(err)
	}
	d.root = root[:]
	return Arrived{Incoming: d.incoming, Bytes: bytes}
}

// takeFrom takes what one parent sends.
func (d *datagramReceiver) takeFrom(ctx context.Context, assignment *groupv1.Assignment, parent *groupv1.Neighbour) error {
	conn, _, err := dialNeighbour(ctx, d.session, assignment, parent, relay.Hello{Datagrams: true}, link.Answer{})
	if err != nil {
		return err
	}
	w, err := openWay(conn)
	if err != nil {
		return err
	}
	d.update(func() { d.lost = "" })
	in := datagram.NewIn(w.secret, w.remote)
	reading := w.receive(func(whole []byte, from netip.AddrPort) {
		if h, payload, err := in.Open(whole, from, time.Now()); err == nil { // otherwise it is not this stream's, or a repeated one
			d.waiting.add(h, payload)
		}
	})
	err = link.Keep(ctx, conn, func() {
		if report, to, ok := in.Report(time.Now()); ok {
			_ = w.socket.Send(report, to) // if it is lost, the next may get through
		}
	})
	w.socket.Close()
	<-reading
	return err
}

// way is how datagrams go between this program and an agent.
type way struct {
	secret wiredatagram.Secret
	remote netip.AddrPort
	socket *udp.Socket
}

// openWay opens a way beside a link, and closes the link if it cannot.
func openWay(conn *link.Conn) (w way, err error) {
	if w.secret, err = conn.Secret(); err == nil {
		w.remote, err = conn.Remote()
	}
	// The link's own address: at any other, of which a machine may take a new one each day (IPv6's are temporary), the neighbour would not
	// believe that it is the same machine.
	var local netip.AddrPort
	if err == nil {
		local, err = conn.Local()
	}
	if err == nil {
		w.socket, err = datagram.Listen(netip.AddrPortFrom(local.Addr(), 0).String())
	}
	if err != nil {
		conn.Close()
	}
	return w, err
}

// receive hands on what comes, until the socket is closed.
func (w way) receive(take func(whole []byte, from netip.AddrPort)) (ended <-chan struct{}) {
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		_ = w.socket.Receive(take, func() {})
	}()
	return reading
}

// arrived takes a datagram, and hands on what it brings.
func (d *datagramReceiver) arrived(h wiredatagram.Header, payload []byte) {
	d.guard.Lock()
	defer d.guard.Unlock()
	var found []datagram.Found
	switch {
	case h.Kind == wiredatagram.Data:
		d.handOn(h, payload, false)
		if d.repair != nil {
			found = d.repair.Data(h.Sequence, h.Sent, payload)
		}
	case d.repair != nil:
		found = d.repair.Parity(h, payload)
	}
	for _, one := range found {
		if one.Kind == wiredatagram.Data {
			d.handOn(one.Header, one.Payload, true)
		}
	}
}

// handOn writes a datagram that is fresh.
func (d *datagramReceiver) handOn(h wiredatagram.Header, payload []byte, recovered bool) {
	sent := time.UnixMicro(int64(h.Sent))
	age := d.clock().Sub(sent)
	isFresh := d.account.Arrived(h.Sequence, age, recovered)
	if d.count(); !isFresh || d.failure != nil || d.isLeft() {
		return
	}
	_, _ = d.hash.Write(payload)
	d.bytes += uint64(len(payload))
	begun := time.Now()
	d.writing.Store(&begun)
	defer d.writing.Store(nil)
	if writer, wants := d.to.(DatagramWriter); wants {
		d.failure = writer.WriteDatagram(Datagram{Sequence: h.Sequence, Sent: sent, Age: age, Recovered: recovered, Payload: payload})
	} else {
		_, d.failure = d.to.Write(payload)
	}
	bytes := d.bytes
	d.mu.Lock()
	d.offset = bytes
	d.mu.Unlock()
}
