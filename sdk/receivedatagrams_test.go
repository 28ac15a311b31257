package sdk

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	algo "github.com/groupcast/groupcast/internal/algo/datagram"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/uplink"
	wiredatagram "github.com/groupcast/groupcast/internal/wire/datagram"
)

// discarding is a stream that nobody reads.
type discarding struct{}

func (discarding) Write(p []byte) (int, error) { return len(p), nil }
func (discarding) Close() error                { return nil }

// How a stream stands is reported while its datagrams come: neither waits for the other.
func TestStandingWhileDatagramsCome(t *testing.T) {
	const count = 20_000
	r := &receiving{session: &Session{attendance: &attendance{wake: make(chan struct{}, 1), changed: make(chan struct{})}}, changed: make(chan struct{})}
	d := &datagramReceiver{receiving: r, to: discarding{}, clock: time.Now, account: algo.NewAccount(0, false)}
	d.count()
	r.counts, r.pauses = d.counts, d.pauses
	var working sync.WaitGroup
	working.Go(func() {
		for n := range uint64(count) {
			h := wiredatagram.Header{Number: n, Kind: wiredatagram.Data, Sequence: n}
			d.arrived(h, []byte("datagram"))
		}
	})
	working.Go(func() {
		for range count {
			r.standing()
		}
	})
	done := make(chan struct{})
	go func() { working.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("they wait for each other")
	}
	if got := r.standing().GetDatagrams().GetReceived(); got != count {
		t.Errorf("%d were received", got)
	}
}

// blocking is a stream that nobody reads until it is told to go on.
type blocking struct {
	discarding
	begun, read chan struct{}
}

func (b blocking) Write(p []byte) (int, error) {
	close(b.begun)
	<-b.read
	return len(p), nil
}

// A Write that is not waited for when receiving is broken off may end while the member tells how much came.
func TestWriteEndsWhileItIsToldWhatCame(t *testing.T) {
	to := blocking{begun: make(chan struct{}), read: make(chan struct{})}
	d := &datagramReceiver{receiving: &receiving{}, to: to, clock: time.Now, account: algo.NewAccount(0, false)}
	var writing sync.WaitGroup
	writing.Go(func() {
		d.arrived(wiredatagram.Header{Kind: wiredatagram.Data}, []byte("datagram"))
	})
	<-to.begun
	close(to.read)
	one := d.failedStream(context.Canceled) // only what guards the number keeps this from racing with the Write
	writing.Wait()
	if whole := d.failedStream(context.Canceled); one.Bytes > whole.Bytes || whole.Bytes != uint64(len("datagram")) {
		t.Errorf("%d bytes came, and then %d", one.Bytes, whole.Bytes)
	}
}

// A member says when its program takes no more for now, as a pager may, so that nobody looks for another agent to feed it.
func TestPausedProgramIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := blocking{begun: make(chan struct{}), read: make(chan struct{})}
		r := &receiving{session: &Session{attendance: &attendance{wake: make(chan struct{}, 1), changed: make(chan struct{})}}, changed: make(chan struct{})}
		d := &datagramReceiver{receiving: r, to: to, clock: time.Now, account: algo.NewAccount(0, false)}
		d.count()
		r.counts, r.pauses = d.counts, d.pauses
		go d.arrived(wiredatagram.Header{Kind: wiredatagram.Data}, []byte("datagram"))
		for _, step := range []struct {
			do   func()
			want bool
		}{
			{func() {}, false},
			{func() { time.Sleep(pausedAfter) }, true},
			{func() { close(to.read) }, false},
		} {
			step.do()
			synctest.Wait()
			if got := r.standing(); got.GetPaused() != step.want || got.GetTrouble() != "" {
				t.Errorf("it pauses: %t, want %t; its trouble is %q, want none, which earlier managers would end all for", got.GetPaused(), step.want, got.GetTrouble())
			}
		}
	})
}

// A member may want datagrams to be fresher than their sender does, but not older.
func TestTheStricterBoundHolds(t *testing.T) {
	for _, c := range []struct{ sender, member, want time.Duration }{
		{0, 0, 0},
		{time.Second, 0, time.Second},
		{0, time.Second, time.Second},
		{time.Second, -time.Second, time.Second},
		{time.Second, 100 * time.Millisecond, 100 * time.Millisecond},
		{100 * time.Millisecond, time.Second, 100 * time.Millisecond},
	} {
		r := &receiving{
			session: &Session{client: &Client{uplink: &uplink.Uplink{}}}, options: ReceiveOptions{Fresh: c.member},
			spec: &groupv1.DeliverySpec{Datagrams: &groupv1.DatagramSpec{Fresh: durationpb.New(c.sender)}},
		}
		d := newDatagramReceiver(r, discarding{}, false)
		now := time.Now()
		d.clock = func() time.Time { return now }
		ages := []time.Duration{50 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second}
		var late uint64
		for n, age := range ages {
			if c.want > 0 && age > c.want {
				late++
			}
			h := wiredatagram.Header{Number: uint64(n), Kind: wiredatagram.Data, Sequence: uint64(n), Sent: uint64(now.Add(-age).UnixMicro())}
			d.arrived(h, []byte("datagram"))
		}
		if got := d.counts(); got.Late != late || got.Received != uint64(len(ages))-late {
			t.Errorf("the sender allows %v, the member %v: %d late, %d received; want %d late", c.sender, c.member, got.Late, got.Received, late)
		}
	}
}

// counted is a stream whose first Write blocks, and that notes how often it is written to.
type counted struct {
	blocking
	writes atomic.Int32
}

func (c *counted) Write(p []byte) (int, error) {
	if c.writes.Add(1) > 1 {
		return len(p), nil
	}
	return c.blocking.Write(p)
}

// When receiving has been broken off, nothing that waited is written: the program may have closed what it goes to.
func TestNothingIsWrittenAfterTheEnd(t *testing.T) {
	to := &counted{blocking: blocking{begun: make(chan struct{}), read: make(chan struct{})}}
	ctx, leave := context.WithCancel(t.Context())
	d := &datagramReceiver{receiving: &receiving{}, to: to, clock: time.Now, account: algo.NewAccount(0, false), waiting: newBacklog(), left: ctx.Done()}
	for n := range uint64(3) {
		d.waiting.add(wiredatagram.Header{Kind: wiredatagram.Data, Sequence: n}, []byte("datagram"))
	}
	var handing sync.WaitGroup
	handing.Go(func() { d.keepHanding(func() {}) })
	<-to.begun
	leave()
	close(to.read)
	d.waiting.end(time.Minute)
	handing.Wait()
	if got := to.writes.Load(); got != 1 {
		t.Errorf("%d were written", got)
	}
}
