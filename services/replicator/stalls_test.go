package replicator_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/internal/object"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// sluggish is a source of which it takes long to find out something: a large tree, on a disk that is far away.
type sluggish struct {
	*send.Object
	changed time.Duration
	asked   atomic.Int32 // how often it was asked for its holes
}

func (s *sluggish) Holes() ([]object.Hole, error) {
	s.asked.Add(1)
	return s.Object.Holes()
}

func (s *sluggish) Changed() error {
	time.Sleep(s.changed)
	return s.Object.Changed()
}

// While it is found out whether the source has changed, members are asked for as long as that takes: nobody takes the other
// for lost. Its holes are known before anything is announced.
func TestSluggishSourceIsWaitedFor(t *testing.T) {
	for name, isThere := range map[string]bool{"sent": false, "there already": true} {
		t.Run(name, func(t *testing.T) {
			b := onLAN(t, 2, lanShape)
			b.file(500_000)
			if isThere {
				first := b.receiveAll(t.Context())
				result, err := b.send(t.Context())
				b.wantComplete(result, err, first...)
			}
			source, err := send.OpenObject(t.Context(), b.path)
			if err != nil {
				t.Fatal(err)
			}
			defer source.Close()
			slow := &sluggish{Object: source, changed: 3 * time.Second}
			receipts := b.receiveAll(t.Context(), func(c *receive.Config) { c.Patience = time.Second })
			result, err := b.sendFrom(t.Context(), slow, func(c *send.Config) { c.Patience = time.Second })
			b.wantComplete(result, err, receipts...)
			b.wantCopies(0, 1)
			if asked := slow.asked.Load(); asked != 1 {
				t.Errorf("its holes were asked for %d times", asked)
			}
		})
	}
}

// paused is a source that stands for a while where half of it has been read.
type paused struct {
	*send.Object
	pause func()
}

func (p *paused) ReadAt(b []byte, offset uint64) error {
	if offset > p.Info().Length/2 {
		p.pause()
	}
	return p.Object.ReadAt(b, offset)
}

// While a source stands, as a disk that spins up, members are asked, late ones taken in, and nobody takes another for lost: neither in
// the middle of what is sent, nor of what is hashed first.
func TestSourceThatStandsIsWaitedFor(t *testing.T) {
	for name, isThere := range map[string]bool{"sent": false, "there already": true} {
		t.Run(name, func(t *testing.T) {
			b := onLAN(t, 2, link.Shape{})
			b.file(20_000_000)
			if isThere {
				first := b.receive(t.Context(), 0)
				result, err := b.send(t.Context(), func(c *send.Config) { c.Receivers = 1 })
				b.wantComplete(result, err, first)
			}
			source, err := send.OpenObject(t.Context(), b.path)
			if err != nil {
				t.Fatal(err)
			}
			defer source.Close()
			receipts := []<-chan received{b.receive(t.Context(), 0, func(c *receive.Config) { c.Patience = time.Second })}
			stands := &paused{source, sync.OnceFunc(func() {
				receipts = append(receipts, b.receive(t.Context(), 1, func(c *receive.Config) { c.Patience = time.Second }))
				time.Sleep(3 * time.Second)
			})}
			result, err := b.sendFrom(t.Context(), stands, func(c *send.Config) { c.Receivers, c.Patience = 1, time.Second })
			b.wantComplete(result, err, receipts...)
			b.wantCopies(0, 1)
		})
	}
}

// A sender that stood still before it began, for longer than receivers listen to it, is heard again when it goes on.
func TestSenderThatStoodStillIsHeardAgain(t *testing.T) {
	b := onLAN(t, 2, lanShape)
	b.file(500_000)
	receipts := b.receiveAll(t.Context())
	stands := time.Now().Add(500 * time.Millisecond)
	result, err := b.send(t.Context(), func(c *send.Config) {
		c.Receivers, c.Wait = 3, 8*time.Second
		c.Turn = func() send.Turn {
			if now := time.Now(); now.After(stands) {
				stands = now.Add(time.Hour)
				time.Sleep(4 * time.Second)
			}
			return send.Turn{Key: key}
		}
	})
	b.wantComplete(result, err, receipts...)
	b.wantCopies(0, 1)
}

// A sender that is heard and does not hear, as behind a firewall, is waited for, and that is told.
func TestDeafSenderIsWaitedFor(t *testing.T) {
	b := onLAN(t, 1, lanShape)
	mouth := b.mouth(b.sender)
	defer mouth.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	waits, ended, began := make(chan time.Duration, 1), make(chan error, 1), time.Now()
	config := receive.Config{
		Place: b.place(b.receivers[0]), Key: key, Name: "receiver", Patience: time.Minute,
		Open: func(ctx context.Context, info object.Info) (receive.Landing, error) {
			return object.Land(ctx, b.dirs[0], info)
		},
	}
	env := receive.Env{Log: quiet, Waits: func() { waits <- time.Since(began) }}
	go func() {
		ended <- b.receivers[0].Do(func() error {
			_, err := receive.Run(ctx, env, config)
			return err
		})
	}()
	salt := wire.Salt{1}
	secret := wire.NewSecret(key, salt)
	announcement := wire.Announcement{Kind: uint8(object.File), Name: "object", Length: 1000, Sender: mouth.Addr()}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for number := uint64(1); ; number++ {
		_ = mouth.Send(secret.Group().Announce(number, salt, append([]byte{9}, make([]byte, 31)...), announcement, 1400), group)
		select {
		case after := <-waits:
			if after < 9*time.Second {
				t.Errorf("it is told after %v", after)
			}
			interrupt()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			return
		case err := <-ended:
			t.Fatalf("it waited for no longer than %v: %v", time.Since(began), err)
		case <-ticker.C:
		}
	}
}

// leisurely is a source that is slower than the network.
type leisurely struct {
	*send.Object
	end  atomic.Uint64 // before which it was read
	half func()        // called when half of it was
}

func (s *leisurely) ReadAt(p []byte, offset uint64) error {
	time.Sleep(3 * time.Millisecond)
	s.end.Store(max(s.end.Load(), offset+uint64(len(p))))
	if s.end.Load() > s.Info().Length/2 {
		s.half()
	}
	return s.Object.ReadAt(p, offset)
}

// While the source is slower than the network, the sender says how far it is, and a receiver that comes late hears of it.
func TestSlowSourceIsAnnouncedAndTold(t *testing.T) {
	b := onLAN(t, 2, link.Shape{})
	b.file(60_000_000)
	source, err := send.OpenObject(t.Context(), b.path)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	slow, receipts := &leisurely{Object: source}, []<-chan received{b.receive(t.Context(), 0)}
	told := 0
	var heardAt uint64 // how much was read when the second heard of it
	b.told = func(send.Progress) {
		if slow.end.Load() < source.Info().Length {
			told++
		}
	}
	slow.half = sync.OnceFunc(func() {
		receipts = append(receipts, b.receive(t.Context(), 1, func(c *receive.Config) {
			find := c.Find
			c.Find = func(ctx context.Context, info object.Info) (receive.Landing, error) {
				heardAt = slow.end.Load()
				return find(ctx, info)
			}
		}))
	})
	result, err := b.sendFrom(t.Context(), slow, func(c *send.Config) { c.Receivers = 1 })
	b.wantComplete(result, err, receipts...)
	b.wantCopies(0, 1)
	if told < 8 || heardAt == source.Info().Length {
		t.Errorf("while it was read it was told %d times how far it is; the one that came at half of it heard of it at %d of %d bytes", told, heardAt, source.Info().Length)
	}
}

// C39: a receiver that is cut off for longer than the sender waits for it, and hears that it goes on for others when it is back, has all soon after.
func TestReceiverIsCutOffForLong(t *testing.T) {
	b := onLAN(t, 2, lanShape)
	b.file(9_000_000)
	receipts := b.receiveAll(t.Context(), func(c *receive.Config) { c.Patience = 0 })
	source, err := send.OpenObject(t.Context(), b.path)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	var cut, heal sync.Once
	wait := &failing{Object: source, after: 2_000_000, then: func() {
		cut.Do(func() {
			if err := b.links[0].Cut(); err != nil {
				t.Error(err)
			}
		})
	}}
	later := &failing{Object: source, after: 7_000_000, then: func() {
		heal.Do(func() {
			if err := b.links[0].Heal(); err != nil {
				t.Error(err)
			}
		})
	}}
	result, err := b.sendFrom(t.Context(), &both{wait, later}, func(c *send.Config) { c.Patience, c.Ceiling = 2*time.Second, 1_000_000 })
	b.wantComplete(result, err, receipts...)
	b.wantCopies(0, 1)
	if lost := max(result.Members[0].Lost, result.Members[1].Lost); lost < 0.3 {
		t.Errorf("no more than %.3f of what was sent was lost to it", lost)
	}
}

// C39: the same where all others of its LAN have all when it is back, and the sender stays, for it sends to other LANs.
func TestReceiverIsBackWhenOthersAreDone(t *testing.T) {
	b := onLAN(t, 2, lanShape)
	b.file(4_000_000)
	receipts := b.receiveAll(t.Context(), func(c *receive.Config) { c.Patience = 0 })
	source, err := send.OpenObject(t.Context(), b.path)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	do := func(what func() error) func() {
		return sync.OnceFunc(func() {
			if err := what(); err != nil {
				t.Error(err)
			}
		})
	}
	cut, heal := do(b.links[0].Cut), do(b.links[0].Heal)
	var most time.Time // until when it stays in any case
	result, err := b.sendFrom(t.Context(), &failing{Object: source, after: 2_000_000, then: cut}, func(c *send.Config) {
		c.Patience = time.Second
		c.Stay = func() time.Time { // asked when nobody is served any more
			heal()
			if most.IsZero() {
				most = time.Now().Add(20 * time.Second)
			}
			if len(receipts[0]) > 0 {
				return time.Time{}
			}
			return most
		}
	})
	b.wantComplete(result, err, receipts...)
	b.wantCopies(0, 1)
}

// both is a source at which two things happen.
type both struct {
	*failing
	other *failing
}

func (s *both) ReadAt(p []byte, offset uint64) error {
	if offset > s.other.after {
		s.other.then()
	}
	return s.failing.ReadAt(p, offset)
}
