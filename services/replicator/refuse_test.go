package replicator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/printable"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
	"github.com/groupcast/groupcast/services/replicator/device"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// refusing has receivers have nowhere to land.
func refusing(why error) func(*receive.Config) {
	return func(c *receive.Config) {
		c.Open = func(context.Context, object.Info) (receive.Landing, error) { return nil, why }
	}
}

// limited bounds what would wait for ever if it were wrong.
func limited(t *testing.T) context.Context {
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(stop)
	return ctx
}

// forEver has a sender wait for its receivers for as long as it takes.
func forEver(c *send.Config) { c.Wait = 0 }

// A receiver that refuses is among those that are waited for; the others get it, and the sender says which has not, and why.
func TestWhoRefusesIsWaitedForNoMore(t *testing.T) {
	for want, why := range map[wire.Reason]error{
		wire.NoRoom:  fmt.Errorf("%w: 1 byte is free", noroom.Err),
		wire.Refused: fmt.Errorf("%w: it is in use,\tmounted at /\n", device.ErrRefused),
	} {
		t.Run(want.String(), func(t *testing.T) {
			b := onLAN(t, 2, lanShape)
			b.file(500_000)
			fine, refused := b.receive(t.Context(), 0), b.receive(t.Context(), 1, refusing(why))
			result, err := b.send(limited(t), forEver)
			if err != nil {
				t.Fatal(err)
			}
			if r := <-refused; !errors.Is(r.err, why) {
				t.Errorf("the one that refused: %v", r.err)
			}
			if r := <-fine; r.err != nil || r.Root != result.Root {
				t.Errorf("the other: %v", r.err)
			}
			b.wantCopies(0)
			if len(result.Members) != 2 {
				t.Fatalf("receipts %+v", result.Members)
			}
			m, text := result.Members[1], printable.Text(why.Error())
			if m.Name != "receiver2" || m.Outcome != algo.Failed || m.Reason != want.String() || m.Detail != text || m.Address.Addr() != b.receivers[1].Addr() {
				t.Errorf("the receipt of who refused is %+v, want %q", m, text)
			}
		})
	}
}

// Where all refuse, the sender does not wait, and says why it ends; nothing of what it says is about switches. Each
// has refused several times, for nothing answers that.
func TestAllRefuse(t *testing.T) {
	b := onLAN(t, 2, lanShape)
	b.file(500_000)
	seen := b.sniff(b.sender)
	receipts := b.receiveAll(t.Context(), refusing(noroom.Err))
	_, err := b.send(limited(t), forEver)
	var refused *send.RefusedError
	if !errors.As(err, &refused) || len(refused.Receipts) != 2 || errors.Is(err, send.ErrNobody) {
		t.Fatalf("the sender: %v", err)
	}
	for i, one := range receipts {
		<-one
		if said := err.Error(); !strings.Contains(said, b.receivers[i].Name()+": no room") || strings.Contains(said, "switch") {
			t.Errorf("the sender said %q", said)
		}
	}
	said := map[string]int{}
	for _, p := range seen() {
		if head, err := wire.ParseHead(p.payload); err == nil && head.Kind == wire.Join {
			said[fmt.Sprint(p.from.Addr(), head.Number)]++
		}
	}
	if len(said) < 2*3 {
		t.Errorf("what two who refused said in all: %v", said)
	}
}

// A sender that begins with the first that joins goes on waiting when one refuses, as long as it waits at all.
func TestRefusalBeforeTheFirst(t *testing.T) {
	b := onLAN(t, 2, lanShape)
	b.file(500_000)
	first := func(c *send.Config) { c.Receivers, c.Wait = 0, time.Second }
	refused := b.receive(t.Context(), 1, refusing(noroom.Err))
	if _, err := b.send(limited(t), first); !errors.As(err, new(*send.RefusedError)) {
		t.Errorf("after its time, the sender: %v", err)
	}
	<-refused
	refused = b.receive(t.Context(), 1, refusing(noroom.Err))
	fine := make(chan received, 1)
	go func() {
		<-refused
		fine <- <-b.receive(t.Context(), 0)
	}()
	result, err := b.send(limited(t), first, func(c *send.Config) { c.Wait = 15 * time.Second })
	if r := <-fine; err != nil || r.err != nil || len(result.Members) != 2 {
		t.Errorf("the sender: %v; the one that came after who refused: %v; receipts %+v", err, r.err, result.Members)
	}
}

// A receiver that refused and comes again is a member like others: before it has begun, and after, when nothing of its refusal is
// left in the receipts.
func TestWhoRefusedComesAgain(t *testing.T) {
	for name, isLate := range map[string]bool{"before it has begun": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			b := onLAN(t, 2, lanShape)
			b.file(2_000_000)
			var isThere atomic.Bool
			first, again := make(chan received, 1), make(chan received, 1)
			start := func() { first <- <-b.receive(t.Context(), 0) }
			go func() {
				<-b.receive(t.Context(), 1, refusing(noroom.Err))
				second := b.receive(t.Context(), 1)
				if !isLate {
					go start()
				}
				r := <-second
				isThere.Store(true)
				again <- r
			}()
			if isLate {
				go start()
			}
			result, err := b.send(limited(t), forEver, func(c *send.Config) {
				c.Stay = func() time.Time {
					if isThere.Load() {
						return time.Time{}
					}
					return time.Now().Add(time.Second)
				}
			})
			b.wantComplete(result, err, first, again)
			b.wantCopies(0, 1)
			if len(result.Members) != 2 {
				t.Errorf("receipts %+v", result.Members)
			}
		})
	}
}

// A receiver that is called a second time beside itself refuses: that takes nothing from the first, and is nobody
// who is waited for.
func TestSecondOfTheSameRefuses(t *testing.T) {
	b := onLAN(t, 2, lanShape)
	b.file(2_000_000)
	first := b.receive(t.Context(), 0)
	other := make(chan received, 1)
	go func() {
		if r := <-b.receive(t.Context(), 0, refusing(object.ErrBusy)); !errors.Is(r.err, object.ErrBusy) {
			t.Errorf("the second: %v", r.err)
		}
		other <- <-b.receive(t.Context(), 1)
	}()
	result, err := b.send(limited(t), forEver)
	b.wantComplete(result, err, first, other)
	if len(result.Members) != 2 {
		t.Errorf("receipts %+v", result.Members)
	}
}

// A receiver that is stopped while it looks at what it has does not refuse: it comes again.
func TestStoppedIsNotRefused(t *testing.T) {
	b := onLAN(t, 1, lanShape)
	b.file(500_000)
	ctx, stop := context.WithCancel(t.Context())
	stopped := b.receive(ctx, 0, func(c *receive.Config) {
		c.Open = func(ctx context.Context, _ object.Info) (receive.Landing, error) {
			stop()
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
	})
	if _, err := b.send(limited(t), func(c *send.Config) { c.Wait = time.Second }); !errors.Is(err, send.ErrNobody) {
		t.Errorf("the sender: %v", err)
	}
	if r := <-stopped; !errors.Is(r.err, context.Canceled) {
		t.Errorf("the one that was stopped: %v", r.err)
	}
}

// fullDisk is a landing that has no room after a while.
type fullDisk struct{ receive.Landing }

var errFullDisk = fmt.Errorf("%w: 7 bytes are free", noroom.Err)

func (f fullDisk) Write(p []byte) (int, error) {
	if f.Offset() > 1_000_000 {
		return 0, errFullDisk
	}
	return f.Landing.Write(p)
}

func (f fullDisk) Ahead(uint64, []byte) (bool, error) { return false, nil }

// A receiver that has no room in the middle says so in words, as one that has none at the beginning does.
func TestWhoFailsInTheMiddleSaysWhy(t *testing.T) {
	b := onLAN(t, 2, lanShape)
	b.file(3_000_000)
	fine, full := b.receive(t.Context(), 0), b.receive(t.Context(), 1, func(c *receive.Config) {
		c.Find = nil
		open := c.Open
		c.Open = func(ctx context.Context, info object.Info) (receive.Landing, error) {
			landing, err := open(ctx, info)
			return fullDisk{landing}, err
		}
	})
	result, err := b.send(limited(t), forEver)
	if err != nil {
		t.Fatal(err)
	}
	if r := <-full; !errors.Is(r.err, noroom.Err) {
		t.Errorf("the one that has no room: %v", r.err)
	}
	if r := <-fine; r.err != nil {
		t.Errorf("the other: %v", r.err)
	}
	if len(result.Members) != 2 {
		t.Fatalf("receipts %+v", result.Members)
	}
	for _, m := range result.Members {
		switch m.Name {
		case "receiver2":
			if m.Outcome != algo.Failed || m.Reason != wire.NoRoom.String() || !strings.Contains(m.Detail, "7 bytes are free") {
				t.Errorf("the receipt of who has no room is %+v", m)
			}
		default:
			if m.Outcome != algo.Complete || m.Detail != "" {
				t.Errorf("the receipt of the other is %+v", m)
			}
		}
	}
}
