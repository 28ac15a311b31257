package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/datagram"
	"github.com/groupcast/groupcast/internal/algo/moment"
	"github.com/groupcast/groupcast/internal/datagram"
	"github.com/groupcast/groupcast/internal/digest"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/supply"
	wiredatagram "github.com/groupcast/groupcast/internal/wire/datagram"
	"github.com/groupcast/groupcast/internal/wire/relay"
)

// paritySpan is how long parity waits for a window to fill: what it repairs still has to be fresh when it arrives.
func paritySpan(fresh time.Duration) time.Duration {
	if fresh == 0 {
		return 100 * time.Millisecond
	}
	return fresh / 4
}

// datagramSender sends a stream in datagrams to the first agent.
type datagramSender struct {
	out     *Outgoing
	fresh   time.Duration
	encoder *datagram.Encoder // nil without parity
	given   chan []byte       // what was read; closed at the end of the stream
	failed  error             // of reading; set before given is closed

	mu      sync.Mutex
	link    *datagram.Out // nil while no agent is there
	batch   *datagram.Batch
	linked  chan struct{}           // closed while an agent is there
	gone    time.Time               // when the last link ended
	fastest float64                 // bytes per second: the most that any link was allowed
	earlier datagram.Use            // of links that have ended
	agent   string                  // that is fed, or was last
	before  map[string]datagram.Use // of links that have ended, by agent
	bytes   uint64

	// Only the sending goroutine touches these.
	next  uint64
	hash  digest.Hash
	until time.Time // what was read last is fresh until then; zero is no bound
	paid  time.Time // until when what was discarded takes
}

// run sends until both the stream and the delivery have ended.
func (s *datagramSender) run(ctx context.Context, from io.Reader) {
	var sending sync.WaitGroup
	sending.Go(func() { s.sendAll(ctx, from) })
	s.out.keepOffering(ctx, s.standing, s.offer)
	sending.Wait()
}

func (s *datagramSender) read(ctx context.Context, from io.Reader) {
	defer close(s.given)
	from = supply.Reader(from)
	for {
		payload := make([]byte, MaxDatagram)
		n, err := from.Read(payload)
		if n > 0 {
			select {
			case s.given <- payload[:n]:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.failed = err
			}
			return
		}
	}
}

// sendAll sends what was read, from when the first agent is there to the end.
func (s *datagramSender) sendAll(ctx context.Context, from io.Reader) {
	if _, linked, _ := s.way(); !awaitLink(ctx, linked, time.Time{}) {
		return
	}
	go s.read(ctx, from) // a Read that blocks ends when the reader is closed
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		s.arm(timer)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			s.flush(ctx)
		case payload, more := <-s.given:
			if !more {
				s.end(ctx)
				return
			}
			s.emit(ctx, payload)
		}
	}
}

// arm sets a timer to end the window of parity in time.
func (s *datagramSender) arm(timer *time.Timer) {
	timer.Stop()
	if s.encoder != nil && !s.encoder.Due().IsZero() {
		timer.Reset(time.Until(s.encoder.Due()))
	}
}

// emit sends what was read as one datagram, and the parity of a window that is full then.
func (s *datagramSender) emit(ctx context.Context, payload []byte) {
	given := s.out.session.client.uplink.Clock().Now()
	_, _ = s.hash.Write(payload)
	h := wiredatagram.Header{Kind: wiredatagram.Data, Sequence: s.next, Sent: uint64(given.UnixMicro())}
	s.next++
	s.mu.Lock()
	s.bytes += uint64(len(payload))
	s.mu.Unlock()
	if s.fresh > 0 {
		s.until = time.Now().Add(s.fresh)
	}
	s.send(ctx, h, payload)
	if s.encoder != nil {
		s.sendParity(ctx, s.encoder.Add(h.Sequence, h.Sent, payload, time.Now()))
	}
}

// flush ends a window of parity.
func (s *datagramSender) flush(ctx context.Context) {
	if s.encoder != nil {
		s.sendParity(ctx, s.encoder.Flush())
	}
}

// sendParity sends the parity of a window, which counts as what it protects: it leaves no faster than the pace allows, and is of no use
// once that is no longer fresh.
func (s *datagramSender) sendParity(ctx context.Context, shards []datagram.Shard) {
	for _, shard := range shards {
		s.send(ctx, shard.Header(), shard.Block)
	}
}

// send sends a datagram when there is a way that may carry it, unless what was read last is no longer fresh then.
func (s *datagramSender) send(ctx context.Context, h wiredatagram.Header, payload []byte) {
	if !s.await(ctx, len(payload)) {
		s.shed(ctx, len(payload))
	}
	s.add(h, payload)
}

// await waits until a datagram may leave, if that is in time, and reports whether it may.
func (s *datagramSender) await(ctx context.Context, payload int) bool {
	for ctx.Err() == nil {
		out, linked, until := s.way()
		now := time.Now()
		switch {
		case out == nil && !awaitLink(ctx, linked, until):
			return false
		case out == nil:
			continue
		case out.IsOpen(now): // managers see by what the agent does not get that it is to be taken out: the stream has to go on for that
			return false
		}
		wait := out.Wait(payload, now)
		if wait == 0 {
			return true
		}
		if !until.IsZero() && now.Add(wait).After(until) {
			return false
		}
		pause.For(ctx, min(wait, algo.ReportInterval)) // the next report may allow more, and another agent may be there by then
	}
	return false
}

// way returns the link that there is, what says when there is one, and until when to wait; zero is for ever. Of all that is read while there
// is no link only the first waits for one, as long as it is fresh: else what a live source gives would be older and older.
func (s *datagramSender) way() (out *datagram.Out, linked <-chan struct{}, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != nil {
		s.fastest = max(s.fastest, s.link.Rate())
		return s.link, s.linked, s.until
	}
	if s.fresh == 0 {
		return nil, s.linked, time.Time{}
	}
	return nil, s.linked, moment.Soonest(s.until, s.gone.Add(s.fresh))
}

// awaitLink waits until there is a link, and reports whether there is one in time.
func awaitLink(ctx context.Context, linked <-chan struct{}, until time.Time) bool {
	var late <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-linked:
		return true
	case <-late:
	case <-ctx.Done():
	}
	return false
}

// shedAhead is by how much what is discarded may be ahead of its pace: a timer is not exact.
const shedAhead = 10 * time.Millisecond

// shed waits for as long as it took to send a datagram that is not sent, when the way was at its best. A source that can wait, as a file, is
// thereby read no faster than if it were sent, and a live one not more slowly.
func (s *datagramSender) shed(ctx context.Context, payload int) {
	s.mu.Lock()
	takes := time.Duration(float64(datagram.Size(payload)) / s.fastest * float64(time.Second))
	s.mu.Unlock()
	now := time.Now()
	s.paid = moment.Latest(s.paid, now.Add(-shedAhead)).Add(takes)
	pause.For(ctx, s.paid.Sub(now))
}

// add sends a datagram to the first agent. If there is none, or it may not have it now, all members lose it.
func (s *datagramSender) add(h wiredatagram.Header, payload []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == nil {
		s.earlier.Held++
		before := s.before[s.agent]
		before.Held++
		s.before[s.agent] = before
		return
	}
	s.link.Add(s.batch, h, payload, time.Now())
	s.batch.Flush()
}

// end tells the managers what was sent.
func (s *datagramSender) end(ctx context.Context) {
	s.flush(ctx)
	if s.failed != nil {
		s.out.fail(ctx, "failed", fmt.Errorf("read the stream: %w", s.failed))
		return
	}
	s.out.session.attendance.reportNow()
	root := s.hash.Sum()
	s.out.seal(ctx, &groupv1.SealDeliveryRequest{Length: s.bytes, Root: root[:], Datagrams: s.next})
}

func (s *datagramSender) standing(report *groupv1.DeliveryReport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	use := s.used()
	report.Bytes, report.DatagramUse, report.Fed = s.bytes, use.Message(), s.out.outletReport(use.Bytes)
	if report.Fed != nil {
		report.Fed.Datagrams = s.usedToAgent().Message()
	}
}

// usedToAgent returns what the links to the agent that is fed carried.
func (s *datagramSender) usedToAgent() (use datagram.Use) {
	if s.link != nil {
		use = s.link.Use()
	}
	use.Add(s.before[s.agent])
	return use
}

// used returns what all links together carried.
func (s *datagramSender) used() (use datagram.Use) {
	if s.link != nil {
		use = s.link.Use()
	}
	use.Add(s.earlier)
	return use
}

// offer opens a link to the first agent and hears its reports until it ends.
func (s *datagramSender) offer(ctx context.Context, assignment *groupv1.Assignment, child *groupv1.Neighbour, opened func()) error {
	conn, _, err := dialNeighbour(ctx, s.out.session, assignment, child, relay.Hello{Offer: true, Datagrams: true}, link.Answer{})
	if err != nil {
		return err
	}
	w, err := openWay(conn)
	if err != nil {
		return err
	}
	out := datagram.NewOutTo(w.secret, conn.RoundTrip(), assignment.GetSpec().GetMaxBytesPerSecond(), w.remote)
	reading := w.receive(func(whole []byte, from netip.AddrPort) { out.Take(whole, from, time.Now()) })
	defer func() { <-reading }()
	defer w.socket.Close()
	opened()
	s.attach(child.GetName(), out, datagram.NewBatch(w.socket))
	defer s.detach()
	return link.Keep(ctx, conn, func() {
		if out.Check(time.Now()) {
			s.out.session.client.log.Warn("too much is lost for too long on the way to the first agent; nothing is sent for a while", "agent", child.GetName())
		}
	})
}

func (s *datagramSender) attach(agent string, out *datagram.Out, batch *datagram.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.noteOutlet(agent, s.earlier.Bytes)
	s.agent = agent
	s.link, s.batch, s.fastest = out, batch, max(s.fastest, out.Rate())
	close(s.linked)
}

func (s *datagramSender) detach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.earlier = s.used()
	s.before[s.agent] = s.usedToAgent()
	s.link, s.batch = nil, nil
	s.linked, s.gone = make(chan struct{}), time.Now()
}
