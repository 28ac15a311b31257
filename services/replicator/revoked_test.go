package replicator_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// C46, reliability D 9: a replica is put out in the middle. With the key that it had it opens nothing that is sent 5 s later, takes
// part no more, and injects nothing; the others have everything, and refuse nothing of what the sender says. If all say at once that they
// have the next key, the first is of no use sooner.
func TestC46RevokedInTheMiddle(t *testing.T) {
	for name, tt := range map[string]struct {
		isKnown       bool
		reads, speaks time.Duration // with the key that was
		bytes         int
	}{
		"all know the next key": {true, 2 * time.Second, 3500 * time.Millisecond, 6_000_000},
		"somebody is silent":    {false, 4 * time.Second, 5 * time.Second, 8_000_000},
	} {
		t.Run(name, func(t *testing.T) {
			const patience, fakesAtOnce = time.Minute, 3
			b := onLAN(t, 4, lanShape)
			b.file(tt.bytes)
			evil, revoked := b.receivers[3], b.receivers[2].Name()
			b.receivers = b.receivers[:3]
			var turn atomic.Pointer[send.Turn]
			turn.Store(&send.Turn{Key: key})
			next := &send.Turn{Key: []byte("the key that follows"), IsKnown: tt.isKnown, Out: []string{revoked}}
			var opened, late, forged atomic.Int64
			var began time.Time // of the insider's goroutine, as all that follows
			var announced wire.Announced
			seen := b.sniff(evil)
			i := b.insider(evil, key, func(i *insider, box *wire.Box, head wire.Head, datagram []byte) {
				if a, err := wire.OpenAnnouncement(key, head, datagram); err == nil {
					announced = a
				}
				if box == nil || head.Kind != wire.Data {
					return
				}
				if _, err := box.Open(nil, head, datagram); err == nil {
					if opened.Add(1); opened.Load() == 200 {
						began = time.Now()
						turn.Store(next)
					}
					if !began.IsZero() && i.ear.Arrived().Sub(began) > tt.reads {
						late.Add(1)
					}
				}
				if began.IsZero() || time.Since(began) < tt.speaks || head.Index%8 != 0 {
					return
				}
				for ahead := range uint32(fakesAtOnce) {
					fake := wire.Head{Kind: wire.Data, Index: 7, Block: head.Block + 1 + ahead, Number: head.Number}
					_ = i.mouth.Send(box.Seal(nil, fake, make([]byte, len(datagram)-wire.Overhead)), group)
				}
				public := append([]byte{9, byte(forged.Add(1))}, make([]byte, wire.PublicSize-2)...)
				j := wire.Joining{Heard: uint16(announced.Size), Buffer: 1 << 20, Name: revoked}
				j.Proof = announced.Secret.Prove(wire.NameKey(nameSecret, revoked), announced.Public, public, j)
				_ = i.mouth.Send(announced.Secret.JoinAs(uint64(forged.Load()), public, j), announced.Sender)
			})
			goesOn := func(c *receive.Config) { c.Next = func() []byte { return turn.Load().Key } }
			receipts := []<-chan received{b.receive(t.Context(), 0, proves, goesOn), b.receive(t.Context(), 1, proves, goesOn)}
			put := b.receive(t.Context(), 2, proves, func(c *receive.Config) { c.Patience = 3 * time.Second })
			result, err := b.send(t.Context(), asks(""), func(c *send.Config) {
				c.Ceiling, c.Patience, c.Leaves, c.Turn = 1e6, patience, true, func() send.Turn { return *turn.Load() }
			})
			if err != nil {
				t.Fatal(err)
			}
			for i, one := range receipts {
				r := <-one
				if r.err != nil || r.Root != result.Root {
					t.Errorf("receiver %d: %v", i+1, r.err)
				}
				if fakes := uint64(forged.Load()) * fakesAtOnce; r.Stats.Forged < fakes/2 || r.Stats.Forged > fakes {
					t.Errorf("receiver %d has refused %d datagrams, and %d were forged", i+1, r.Stats.Forged, fakes)
				}
			}
			b.wantCopies(0, 1)
			if r := <-put; !errors.Is(r.err, receive.ErrSenderGone) {
				t.Errorf("the one that was put out: %v", r.err)
			}
			b.wantNone(2)
			t.Logf("it opened %d datagrams, and forged %d times; %v, %+v", opened.Load(), forged.Load(), result.Took, result.Counts)
			if result.Took > patience {
				t.Errorf("the one that was put out was waited for: it took %v", result.Took)
			}
			if late.Load() > 0 || forged.Load() == 0 {
				t.Errorf("it opened %d datagrams late, and forged %d times", late.Load(), forged.Load())
			}
			for _, p := range seen() {
				if p.to == i.mouth.Addr() {
					t.Errorf("the sender answered %d bytes", len(p.payload))
				}
			}
		})
	}
}
