package replicator_test

import (
	"net/netip"
	"sync"
	"testing"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/internal/multicast"
	"github.com/groupcast/groupcast/internal/udp"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// stranger is somebody in the LAN that has no key. All is done by the goroutine that hears.
type stranger struct {
	ear, mouth        *udp.Socket
	replayed, flipped uint64
	hasFlipped        chan struct{} // closed when it flips no more
	end               func()        // ends it
}

const (
	// flips is in how many datagrams a stranger flips a bit.
	flips = 100
	// headBytes is how long the head is, by which a receiver knows whether a datagram concerns it.
	headBytes = 16
)

// stranger has a host send again all that it hears, flip bits in some of that, and send junk to the sender, until it is ended.
func (b *bench) stranger(host *lab.Host) *stranger {
	b.t.Helper()
	s, place := &stranger{hasFlipped: make(chan struct{})}, b.place(host)
	err := host.Do(func() (err error) {
		if s.ear, err = multicast.Join(place); err != nil {
			return err
		}
		s.mouth, err = multicast.Open(place, 0)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.ear.Receive(s.hears, func() {}) }()
	s.end = sync.OnceFunc(func() {
		_ = s.ear.Close()
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
		_ = s.mouth.Close()
	})
	b.t.Cleanup(s.end)
	return s
}

func (s *stranger) hears(datagram []byte, from netip.AddrPort) {
	head, err := wire.ParseHead(datagram)
	if err != nil || from == s.mouth.Addr() {
		return
	}
	s.replayed++
	_ = s.mouth.Send(datagram, group)
	forged := append([]byte(nil), datagram...)
	bit := int(s.replayed) * 7 % ((len(forged) - headBytes) * 8)
	forged[headBytes+bit/8] ^= 1 << (bit % 8)
	_ = s.mouth.Send(forged[:int(s.replayed)%len(forged)], from) // junk
	// Receivers count nothing before they are welcome. Of the first block, all packets may be sent before they are.
	if head.Kind != wire.Data || head.Block == 0 || s.flipped == flips {
		return
	}
	_ = s.mouth.Send(forged, group)
	if s.flipped++; s.flipped == flips {
		close(s.hasFlipped)
	}
}

// C37, C41, C44: somebody that has no key, flips bits, sends junk, or sends again what was sent, changes nothing: what it flips is
// refused, what it sends again is taken by nobody for a second time, and all takes no longer than without it.
func TestStrangersChangeNothing(t *testing.T) {
	b := onLAN(t, 3, link.Shape{})
	ctx, host := limited(t), b.receivers[2]
	b.receivers = b.receivers[:2]
	slowly := func(c *send.Config) { c.Ceiling = 1e6 } // there is room in the LAN for who sends the same again
	b.file(1_000_000)
	receipts := b.receiveAll(ctx)
	calm, err := b.send(ctx, slowly)
	b.wantComplete(calm, err, receipts...)

	b.file(1_000_001) // which is no object that they have
	source, err := send.OpenObject(ctx, b.path)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	seen, stranger := b.sniff(b.sender), b.stranger(host)
	receipts = b.receiveAll(ctx)
	// All that is flipped comes while the receivers listen: the end is read later.
	result, err := b.sendFrom(ctx, &paused{source, sync.OnceFunc(func() {
		select {
		case <-stranger.hasFlipped:
		case <-ctx.Done():
		}
	})}, slowly)
	stranger.end()
	sent := b.sentToGroup(result, seen())
	for i, one := range receipts {
		r := <-one
		if r.err != nil || r.Root != result.Root {
			t.Errorf("receiver %d: %v", i+1, r.err)
		}
		if r.Stats.Forged != stranger.flipped {
			t.Errorf("receiver %d has refused %d datagrams, and in %d a bit was flipped", i+1, r.Stats.Forged, stranger.flipped)
		}
		if r.Stats.Datagrams-r.Stats.Forged > sent+stranger.replayed {
			t.Errorf("receiver %d took %d datagrams, %d were sent, and %d sent again", i+1, r.Stats.Datagrams-r.Stats.Forged, sent, stranger.replayed)
		}
		b.wantOnce(i, r)
	}
	b.wantComplete(result, err)
	b.wantCopies(0, 1)
	if c := result.Counts; c.Trips > 0 || c.Timeouts > 0 || c.Repairs*10 > c.Packets {
		t.Errorf("the sender let itself be disturbed: %+v", c)
	}
	if result.Took > 2*calm.Took {
		t.Errorf("it took %v, and %v without the stranger", result.Took, calm.Took)
	}
}

// sentToGroup is how many datagrams were sent to the group, of what was seen at the sender.
func (b *bench) sentToGroup(result send.Result, seen []packet) (sent uint64) {
	sent = result.Counts.Packets
	for _, one := range seen {
		if one.from.Addr() == b.sender.Addr() {
			sent += uint64(len(announcements([]packet{one})))
		}
	}
	return sent
}

// wantOnce wants a receiver to have taken each byte of the object once. Of the last block it may have parity, whose shards are all of one size.
func (b *bench) wantOnce(i int, r received) {
	b.t.Helper()
	if came, length := r.Stats.Came, r.Info.Length; came < length || came > length+wire.MaxDatagram {
		b.t.Errorf("receiver %d took %d bytes of an object that has %d", i+1, came, length)
	}
}
