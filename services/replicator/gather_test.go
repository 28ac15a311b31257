package replicator_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// A receiver that comes before the others waits for them, for longer than a sender may be silent, and one that has gone again
// meanwhile is not taken for one of those that are waited for.
func TestEarlyReceiversWait(t *testing.T) {
	b := onLAN(t, 4, lanShape)
	b.file(500_000)
	const patience = time.Second
	hurried := func(c *receive.Config) { c.Patience = patience }
	gone, leave := context.WithCancel(t.Context())
	first, leaves := b.receive(t.Context(), 0, hurried), b.receive(gone, 1, hurried)
	later := make(chan (<-chan received), 2)
	go func() {
		time.Sleep(patience / 2)
		leave()
		time.Sleep(4 * patience) // by when it is known that it is gone
		later <- b.receive(t.Context(), 2, hurried)
		time.Sleep(patience)
		later <- b.receive(t.Context(), 3, hurried)
	}()
	result, err := b.send(t.Context(), func(c *send.Config) { c.Receivers = 3 })
	if r := <-leaves; !errors.Is(r.err, context.Canceled) {
		t.Errorf("the one that left: %v", r.err)
	}
	b.wantComplete(result, err, first, <-later, <-later)
	b.wantCopies(0, 2, 3)
	if len(result.Members) != 3 {
		t.Errorf("%+v are members", result.Members)
	}
}

// C44: what a sender of an earlier session announced is sent again, with the same key of the group: who hears it listens
// on when that one says nothing more, and hears the next.
func TestAnnouncementsThatAreSentAgain(t *testing.T) {
	b := onLAN(t, 2, lanShape)
	b.file(500_000)
	stranger := b.receivers[1]
	seen := b.sniff(stranger)
	early, end := context.WithTimeout(t.Context(), time.Second)
	defer end()
	if _, err := b.send(early); err == nil {
		t.Fatal("it was sent to nobody")
	}
	mouth := b.mouth(stranger)
	defer mouth.Close()
	receipt := b.receive(t.Context(), 0)
	time.Sleep(100 * time.Millisecond) // by when it listens
	sentAgain := 0
	for _, one := range seen() {
		if one.to == group && mouth.Send(one.payload, group) == nil {
			sentAgain++
		}
	}
	time.Sleep(time.Second) // by when it waits for the one that is gone
	result, err := b.send(t.Context(), func(c *send.Config) { c.Receivers = 1 })
	b.wantComplete(result, err, receipt)
	b.wantCopies(0)
	if sentAgain == 0 {
		t.Error("nothing was sent again")
	}
}

// C38: a receiver that comes late, and whose path does not carry the datagrams that there are, is told so at once.
func TestNarrowPathThatComesLate(t *testing.T) {
	slow := link.Shape{Rate: 20 * link.Mbit}
	narrow := slow
	narrow.MTU = 1280
	b := onLANs(t, slow, narrow)
	b.file(16_000_000) // 6 s: on a busy machine the late one is later
	wide := b.receive(t.Context(), 0)
	late := make(chan received, 1)
	go func() {
		time.Sleep(time.Second)
		late <- <-b.receive(t.Context(), 1)
	}()
	result, err := b.send(t.Context(), func(c *send.Config) { c.Receivers = 1 })
	b.wantComplete(result, err, wide)
	if r := <-late; !errors.Is(r.err, receive.ErrTooLarge) {
		t.Errorf("the late one, on a path of 1280 bytes: %v", r.err)
	}
	b.wantCopies(0)
}

// set changes the interface of a host.
func (b *bench) set(host *lab.Host, change func(netlink.Link) error) {
	device, err := host.Interface()
	if err != nil {
		b.t.Error(err)
		return
	}
	err = host.Do(func() error {
		at, err := netlink.LinkByName(device.Name)
		if err != nil {
			return err
		}
		return change(at)
	})
	if err != nil {
		b.t.Error(err)
	}
}

// An interface that is down for a moment ends nothing.
func TestInterfaceThatIsDownForAMoment(t *testing.T) {
	b := onLAN(t, 2, link.Shape{Rate: 20 * link.Mbit})
	b.file(6_000_000)
	receipts := b.receiveAll(t.Context())
	source, err := send.OpenObject(t.Context(), b.path)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	down := sync.OnceFunc(func() { // when a third was read
		go func() {
			b.set(b.sender, netlink.LinkSetDown)
			time.Sleep(500 * time.Millisecond)
			b.set(b.sender, netlink.LinkSetUp)
		}()
	})
	result, err := b.send(t.Context(), func(c *send.Config) { c.Source = &failing{Object: source, after: 2_000_000, then: down} })
	b.wantComplete(result, err, receipts...)
	b.wantCopies(0, 1)
	for _, m := range result.Members {
		if m.Outcome != algo.Complete {
			t.Errorf("%+v", m)
		}
	}
}

// A receiver of a directory that comes late is sent again what it has missed, and not what came since: it learns at once where that belongs.
func TestLateReceiverOfADirectory(t *testing.T) {
	b := onLAN(t, 2, lanShape)
	b.file(16_000_000)
	b.path = filepath.Dir(b.path)
	late, missed := make(chan received, 1), uint64(0)
	begins := sync.OnceFunc(func() {
		go func() { late <- <-b.receive(t.Context(), 1) }()
	})
	b.told = func(p send.Progress) {
		if p.Sent > 2_000_000 {
			begins()
		}
		if len(p.Members) == 2 && missed == 0 {
			missed = p.Sent
		}
	}
	first := b.receive(t.Context(), 0)
	result, err := b.send(t.Context(), func(s *send.Config) { s.Receivers, s.Ceiling = 1, 4_000_000 })
	b.wantComplete(result, err, first, late)
	if again := result.Counts.Repairs * uint64(result.Datagram); missed == 0 || again > missed*3/2 {
		t.Errorf("it missed %d bytes, and %d were sent again", missed, again)
	}
}

// A low ceiling holds with all that is sent: announcements, questions and data.
func TestLowCeilingHoldsWithAnnouncements(t *testing.T) {
	const ceiling, headers = 20_000, 28 // bytes a second; bytes of a datagram
	b := onLAN(t, 1, lanShape)
	b.file(200_000)
	first, seen := b.receive(t.Context(), 0), b.sniff(b.sender)
	result, err := b.send(t.Context(), func(s *send.Config) { s.Receivers, s.Ceiling = 1, ceiling })
	sent := 0
	for _, one := range seen() {
		if one.to.Addr() == group.Addr() {
			sent += headers + len(one.payload)
		}
	}
	b.wantComplete(result, err, first)
	rate := float64(sent) / result.Took.Seconds()
	t.Logf("%.0f bytes a second in %v", rate, result.Took)
	if rate > 1.1*ceiling {
		t.Errorf("%.0f bytes a second were sent in %v, the ceiling is %d", rate, result.Took, ceiling)
	}
}
