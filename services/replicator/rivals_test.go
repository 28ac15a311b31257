package replicator_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/internal/object"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// beside takes the last receiver's host for another sender to the same receivers, with a file of its own.
func (b *bench) beside(size int) *bench {
	b.t.Helper()
	last := len(b.receivers) - 1
	other := *b
	other.sender, b.receivers = b.receivers[last], b.receivers[:last]
	other.receivers = b.receivers
	other.file(size)
	return &other
}

type sent struct {
	send.Result
	err  error
	took time.Duration
}

// sendAside sends beside what the test does.
func (b *bench) sendAside(ctx context.Context, change ...func(*send.Config)) <-chan sent {
	done, begun := make(chan sent, 1), time.Now()
	go func() {
		result, err := b.send(ctx, append(change, func(c *send.Config) { c.Exclusive = true })...)
		done <- sent{result, err, time.Since(begun)}
	}()
	return done
}

// soon is by when a sender ends that another goes before.
const soon = 3 * time.Second

// wantYielded wants a sender to have ended soon because of another.
func (b *bench) wantYielded(got sent, other *bench) (rival *send.RivalError) {
	b.t.Helper()
	if !errors.As(got.err, &rival) || rival.Sender != other.sender.Addr() || rival.Name != "object" || got.took > soon {
		b.t.Fatalf("beside %v, it ended after %v with %v", other.sender.Addr(), got.took, got.err)
	}
	return rival
}

// C61: two senders of one key that both wait for receivers, with objects of one name: one goes on, and has all receivers, also
// those that had joined the other. Nobody mixes.
func TestOfTwoSendersOneGoesOn(t *testing.T) {
	b := onLAN(t, 3, link.Shape{})
	b.file(2_000_000)
	other := b.beside(1_500_000)
	ctx := limited(t)
	ends := []<-chan sent{b.sendAside(ctx, forEver), other.sendAside(ctx, forEver)}
	receipts := b.receiveAll(ctx)
	first, second := <-ends[0], <-ends[1]
	winner, loser, won, lost := b, other, first, second
	if first.err != nil {
		winner, loser, won, lost = other, b, second, first
	}
	loser.wantYielded(lost, winner)
	winner.wantComplete(won.Result, won.err, receipts...)
	winner.wantCopies(0, 1)
	if len(won.Members) != 2 {
		t.Errorf("receipts %+v", won.Members)
	}
}

// Another sender that starts while one sends ends soon, with the same object and with another, also where a receiver is there
// that it could have: that gets what the first sends.
func TestSenderThatStartsLaterEnds(t *testing.T) {
	for name, isSame := range map[string]bool{"the same object": true, "another": false} {
		t.Run(name, func(t *testing.T) {
			b := onLAN(t, 3, link.Shape{Rate: 20 * link.Mbit, Queue: link.Packets(200)})
			b.file(6_000_000)
			other := b.beside(4_000_000)
			if isSame {
				other.path = b.path
			}
			ctx, reached := limited(t), make(chan struct{})
			source, err := send.OpenObject(t.Context(), b.path)
			if err != nil {
				t.Fatal(err)
			}
			defer source.Close()
			first := b.sendAside(ctx, func(c *send.Config) {
				c.Receivers, c.Source = 1, &failing{Object: source, after: 1_000_000, then: closing(reached)}
			})
			receipts := []<-chan received{b.receive(ctx, 0)}
			<-reached
			second := other.sendAside(ctx, func(c *send.Config) { c.Receivers, c.Wait = 0, 0 })
			receipts = append(receipts, b.receive(ctx, 1))
			if rival := other.wantYielded(<-second, b); !rival.HasBegun || rival.Length != 6_000_000 {
				t.Errorf("it ended because of %+v", rival)
			}
			done := <-first
			b.wantComplete(done.Result, done.err, receipts...)
			b.wantCopies(0, 1)
		})
	}
}

// closing closes a channel the first time that it is called.
func closing(c chan struct{}) func() {
	var isClosed atomic.Bool
	return func() {
		if isClosed.CompareAndSwap(false, true) {
			close(c)
		}
	}
}

// Receivers that have joined a sender which ends because of another, or are about to, listen on at once, and get what that sends.
func TestReceiversListenOn(t *testing.T) {
	b := onLAN(t, 3, link.Shape{})
	b.file(500_000)
	ctx := limited(t)
	var opened atomic.Int32
	heard, isTold := 0, make(chan struct{})
	told, host := closing(isTold), b.receivers[2]
	other := b.beside(700_000)
	b.insider(host, key, func(i *insider, _ *wire.Box, head wire.Head, datagram []byte) {
		a, err := wire.OpenAnnouncement(key, head, datagram)
		if err != nil || opened.Load() < 2 {
			return
		}
		if heard++; heard < 8 { // a second: by now the first has joined
			return
		}
		_ = i.mouth.Send(a.Secret.Fence(0, wire.Fencing{Announcement: a.Announcement, Age: time.Hour}), a.Sender)
		told()
	})
	first := b.sendAside(ctx, func(c *send.Config) { c.Receivers, c.Wait = 3, 0 })
	receipts := b.receiveAll(ctx, func(c *receive.Config) {
		open := c.Open
		c.Open = func(ctx context.Context, info object.Info) (receive.Landing, error) {
			if opened.Add(1); c.Name == "receiver2" {
				select {
				case <-isTold:
				case <-ctx.Done():
				}
			}
			return open(ctx, info)
		}
	})
	if lost := <-first; !errors.As(lost.err, new(*send.RivalError)) {
		t.Fatalf("it ended with %v", lost.err)
	}
	begun := time.Now()
	result, err := other.send(ctx, forEver) // which the insider does not hear: they share a host
	took := time.Since(begun)
	other.wantComplete(result, err, receipts...)
	other.wantCopies(0, 1)
	if took > 2*time.Second {
		t.Errorf("they took %v to listen on, as where a sender falls silent", took)
	}
}

// Where both have begun, the younger ends in the middle, and its receivers go on from there with the elder's, if that is the same.
func TestMembersGoOverInTheMiddle(t *testing.T) {
	b := onLAN(t, 3, link.Shape{Rate: 20 * link.Mbit, Queue: link.Packets(200)})
	b.file(6_000_000)
	ctx, host, reached := limited(t), b.receivers[2], make(chan struct{})
	other := b.beside(1)
	other.path = b.path
	b.insider(host, key, func(i *insider, _ *wire.Box, head wire.Head, datagram []byte) {
		a, err := wire.OpenAnnouncement(key, head, datagram)
		if err != nil || a.Datagram == 0 {
			return
		}
		select {
		case <-reached:
			_ = i.mouth.Send(a.Secret.Fence(head.Number, wire.Fencing{Announcement: a.Announcement, Age: time.Hour}), a.Sender)
		default:
		}
	})
	source, err := send.OpenObject(t.Context(), b.path)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	first := b.sendAside(ctx, func(c *send.Config) {
		c.Source = &failing{Object: source, after: 2_000_000, then: closing(reached)}
	})
	receipts := b.receiveAll(ctx)
	lost, rival := <-first, new(send.RivalError)
	if !errors.As(lost.err, &rival) || !rival.HasBegun {
		t.Fatalf("it ended with %v", lost.err)
	}
	begun := time.Now()
	result, err := other.send(ctx, forEver)
	if err != nil || len(result.Members) != 2 {
		t.Errorf("receipts %+v: %v", result.Members, err)
	}
	if waited := time.Since(begun) - result.Took; waited > 2*time.Second {
		t.Errorf("they took %v to go over, as where a sender falls silent", waited)
	}
	for i, one := range receipts {
		if r := <-one; r.err != nil || r.Root != result.Root || r.Resumed < 1_000_000 {
			t.Errorf("receiver %d went on from %d: %v", i+1, r.Resumed, r.err)
		}
	}
	other.wantCopies(0, 1)
}

// C44: what a sender said that is gone is sent again, twice, in the time of another with the same key: that goes on, and answers
// each announcement once.
func TestDeadSenderEndsNobody(t *testing.T) {
	b := onLAN(t, 4, lanShape)
	b.file(600_000)
	stranger := b.receivers[2]
	dead := b.beside(5_000_000) // which takes long enough to be announced while it is sent
	b.receivers = b.receivers[:2]
	dead.receivers = b.receivers
	ctx, seen := limited(t), b.sniff(stranger)
	receipts := b.receiveAll(ctx)
	gone := <-dead.sendAside(ctx)
	dead.wantComplete(gone.Result, gone.err, receipts...)
	recorded := announcements(seen())

	repeats, isWaiting := b.sniff(b.sender), make(chan struct{})
	waits := closing(isWaiting)
	b.insider(b.receivers[0], key, func(*insider, *wire.Box, wire.Head, []byte) { waits() })
	next := b.sendAside(ctx, forEver)
	<-isWaiting
	b.repeat(stranger, append(recorded, recorded...))
	receipts = b.receiveAll(ctx)
	done := <-next
	b.wantComplete(done.Result, done.err, receipts...)
	b.wantCopies(0, 1)
	answers := 0
	for _, one := range repeats() {
		if head, err := wire.ParseHead(one.payload); err == nil && head.Kind == wire.Fence && one.to.Addr() == dead.sender.Addr() {
			answers++
		}
	}
	if answers != len(recorded) {
		t.Errorf("%d announcements were sent again, and were answered %d times", len(recorded), answers)
	}
	head, err := wire.ParseHead(recorded[len(recorded)-1])
	if err != nil {
		t.Fatal(err)
	}
	last, err := wire.OpenAnnouncement(key, head, recorded[len(recorded)-1])
	if err != nil || last.Datagram == 0 {
		t.Errorf("the last that was announced is not of one that has begun: %+v, %v", last.Announcement, err)
	}
}

// announcements are those to the group.
func announcements(seen []packet) (all [][]byte) {
	for _, one := range seen {
		if head, err := wire.ParseHead(one.payload); err == nil && one.to == group && head.Kind == wire.Announce {
			all = append(all, one.payload)
		}
	}
	return all
}

// repeat has a host send to the group what was recorded.
func (b *bench) repeat(host *lab.Host, recorded [][]byte) {
	b.t.Helper()
	mouth := b.mouth(host)
	defer mouth.Close()
	for _, one := range recorded {
		if err := mouth.Send(one, group); err != nil {
			b.t.Fatal(err)
		}
	}
}

// Senders to which managers have given a key, which is theirs alone, end for nobody.
func TestManagedSendersEndForNobody(t *testing.T) {
	b := onLAN(t, 3, link.Shape{})
	b.file(500_000)
	ctx, isTold := limited(t), make(chan struct{})
	told, host := closing(isTold), b.receivers[2]
	b.receivers = b.receivers[:2]
	b.insider(host, key, func(i *insider, _ *wire.Box, head wire.Head, datagram []byte) {
		if a, err := wire.OpenAnnouncement(key, head, datagram); err == nil {
			_ = i.mouth.Send(a.Secret.Fence(head.Number, wire.Fencing{Announcement: a.Announcement, Age: time.Hour}), a.Sender)
			told()
		}
	})
	done := make(chan sent, 1)
	go func() {
		result, err := b.send(ctx, forEver)
		done <- sent{Result: result, err: err}
	}()
	<-isTold
	receipts := b.receiveAll(ctx)
	got := <-done
	b.wantComplete(got.Result, got.err, receipts...)
}
