package replicator_test

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

var nameSecret = []byte("32 bytes that no member knows ..")

// proves has a receiver prove its name.
func proves(c *receive.Config) { c.NameKey = wire.NameKey(nameSecret, c.Name) }

// asksBack has a receiver prove its name and believe no sender that does not have the key of that.
func asksBack(c *receive.Config) {
	proves(c)
	c.SenderProves = true
}

// asks has a sender believe nobody without a proof but those that it is told of.
func asks(unproven string) func(*send.Config) {
	return func(c *send.Config) {
		c.NameKey = func(name string) []byte { return wire.NameKey(nameSecret, name) }
		c.Unproven = func(name string) bool { return name == unproven }
	}
}

// C47, reliability D 6: a receiver that has the key of the replication and a part of its own joins in nobody else's name, as one that
// exists or not, and refuses for nobody else. One of an earlier version, which proves nothing, takes part where that is known.
func TestC47NamesAreProven(t *testing.T) {
	b := onLAN(t, 4, lanShape)
	b.file(1_000_000)
	evil := b.receivers[3]
	b.receivers = b.receivers[:3]
	victim, earlier := b.receivers[0].Name(), b.receivers[2].Name()
	seen := b.sniff(evil)
	var joins atomic.Int64
	i := b.insider(evil, key, func(i *insider, _ *wire.Box, head wire.Head, datagram []byte) {
		a, err := wire.OpenAnnouncement(key, head, datagram)
		if err != nil || joins.Load() >= 200 {
			return
		}
		private, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err != nil {
			t.Error(err)
			return
		}
		public := private.PublicKey().Bytes()
		for _, name := range []string{victim, "nobody"} {
			for _, reason := range []wire.Reason{wire.NoReason, wire.Refused} {
				j := wire.Joining{Heard: uint16(a.Size), Buffer: 1 << 20, Name: name, Refused: reason}
				for _, proof := range []wire.Proof{{}, a.Secret.Prove(wire.NameKey(nameSecret, "evil"), a.Public, public, j)} {
					j.Proof = proof
					joins.Add(1)
					_ = i.mouth.Send(a.Secret.JoinAs(uint64(joins.Load()), public, j), a.Sender)
				}
			}
		}
	})
	receipts := []<-chan received{b.receive(t.Context(), 0, proves), b.receive(t.Context(), 1, proves), b.receive(t.Context(), 2)}
	result, err := b.send(t.Context(), asks(earlier), func(c *send.Config) { c.Patience = 3 * time.Second })
	b.wantComplete(result, err, receipts...)
	b.wantCopies(0, 1, 2)
	if len(result.Members) != 3 || joins.Load() == 0 {
		t.Errorf("%d members after %d JOINs in others' names", len(result.Members), joins.Load())
	}
	for _, p := range seen() {
		if p.to == i.mouth.Addr() {
			t.Errorf("the sender answered %d bytes", len(p.payload))
		}
	}
}

// C43: a replica announces something itself, under the name that the others wait for. They take nothing of it, and go on to the true sender,
// which one of an earlier version, or of managers that do not know that the sender proves itself, joins as well.
func TestC43MemberSends(t *testing.T) {
	b := onLAN(t, 4, lanShape)
	b.file(1_000_000)
	evil := b.beside(700_000)
	ctx, heard := limited(t), make(chan struct{})
	joined := closing(heard)
	forged := evil.sendAside(ctx, forEver, func(c *send.Config) {
		c.Receivers, c.Patience, c.NameKey = 2, 3*time.Second, func(string) []byte {
			joined()
			return []byte("one that no name has of 32 bytes")
		}
		c.Unproven = func(string) bool { return true }
	})
	receipts := []<-chan received{b.receive(ctx, 0, asksBack), b.receive(ctx, 1, asksBack)}
	<-heard
	if got := <-forged; got.err == nil && slices.ContainsFunc(got.Members, func(r send.Receipt) bool { return r.Outcome == algo.Complete }) {
		t.Errorf("a member that sends has %+v", got.Members)
	}
	receipts = append(receipts, b.receive(ctx, 2, proves))
	result, err := b.send(ctx, asks(""), func(c *send.Config) { c.Receivers = 3 })
	b.wantComplete(result, err, receipts...)
	b.wantCopies(0, 1, 2)
}

// A replica that is taken for one of an earlier version, as it registered with a manager of that, and proves its name nevertheless,
// takes part: whether it wants the sender to prove itself or not.
func TestTakenForAnEarlierVersion(t *testing.T) {
	b := onLAN(t, 2, lanShape)
	b.file(1_000_000)
	receipts := []<-chan received{b.receive(t.Context(), 0, asksBack), b.receive(t.Context(), 1, proves)}
	result, err := b.send(t.Context(), asks(""), func(c *send.Config) { c.Unproven = func(string) bool { return true } })
	b.wantComplete(result, err, receipts...)
	b.wantCopies(0, 1)
}

// Once a receiver has proved its name, nobody else has that without a proof, though the managers take it for one of an earlier version.
func TestProvenOnceIsProven(t *testing.T) {
	b := onLAN(t, 2, lanShape)
	b.file(3_000_000)
	slowly := func(c *send.Config) { c.Ceiling, c.Receivers = 1_000_000, 1 }
	proven := b.receive(t.Context(), 0, asksBack)
	ctx, stop := context.WithCancel(limited(t))
	defer stop()
	begun := make(chan struct{})
	begins := closing(begun)
	b.told = func(p send.Progress) {
		if p.Sent > 500_000 {
			begins()
		}
	}
	ended := make(chan send.Result, 1)
	go func() {
		result, err := b.send(t.Context(), asks(b.receivers[0].Name()), slowly)
		if err != nil {
			t.Error(err)
		}
		ended <- result
	}()
	<-begun
	other := b.receive(ctx, 1, func(c *receive.Config) { c.Name = b.receivers[0].Name() })
	result := <-ended
	b.wantComplete(result, nil, proven)
	if len(result.Members) != 1 {
		t.Errorf("the members are %+v", result.Members)
	}
	stop()
	<-other
}
