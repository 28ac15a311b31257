package sdk

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/datagram"
	"github.com/groupcast/groupcast/internal/datagram"
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
	r.counts = d.counts
	secret := wiredatagram.Secret{1}
	box, in := secret.Down(), datagram.NewIn(secret, netip.AddrPort{})
	var working sync.WaitGroup
	working.Go(func() {
		for n := range uint64(count) {
			h := wiredatagram.Header{Number: n, Kind: wiredatagram.Data, Sequence: n}
			d.arrived(in, box.Seal(nil, h, []byte("datagram")), netip.AddrPort{}, nil)
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
