package replicator_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// give gives receivers what is to be replicated beforehand.
func (b *bench) give(which ...int) {
	b.t.Helper()
	for _, i := range which {
		content, err := os.ReadFile(b.path)
		if err != nil {
			b.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(b.dirs[i], filepath.Base(b.path)), content, 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
}

// replicate replicates to all and wants copies, and returns what each has come by.
func (b *bench) replicate() (result send.Result, stats []receive.Receipt) {
	b.t.Helper()
	receipts := b.receiveAll(b.t.Context())
	result, err := b.send(b.t.Context())
	for i, one := range receipts {
		r := <-one
		if r.err != nil || r.Root != result.Root {
			b.t.Errorf("receiver %d: %v", i+1, r.err)
		}
		stats = append(stats, r.Receipt)
		b.wantCopies(i)
	}
	if err != nil {
		b.t.Error(err)
	}
	b.t.Logf("%v, %d bytes sent: %+v", result.Took, result.Sent, result.Counts)
	return result, stats
}

// A receiver that has what is replicated already is sent nothing of it: where all have it, only polls, the root
// and farewells leave the sender, and it gets the source's mode.
func TestNothingIsSentToWhoHasIt(t *testing.T) {
	b := onLAN(t, 3, lanShape)
	b.file(3_000_000)
	b.give(0, 1, 2)
	result, stats := b.replicate()
	if result.Sent != 0 || result.Counts.Packets != result.Counts.Polls {
		t.Errorf("%d bytes, %+v were sent", result.Sent, result.Counts)
	}
	for i, one := range stats {
		if one.Resumed != 3_000_000 || one.Stats.Came != 0 {
			t.Errorf("receiver %d had %d bytes, and %d came", i+1, one.Resumed, one.Stats.Came)
		}
		if there, err := os.Stat(filepath.Join(b.dirs[i], "object")); err != nil || there.Mode().Perm() != 0o640 {
			t.Errorf("receiver %d: %v, %v", i+1, there.Mode(), err)
		}
	}
}

// Where some have it, the others get it, once.
func TestOthersGetWhatSomeHave(t *testing.T) {
	b := onLAN(t, 3, lanShape)
	b.file(3_000_000)
	b.give(0)
	result, stats := b.replicate()
	if result.Sent != 3_000_000 || result.Counts.Packets > 2600 {
		t.Errorf("%d bytes, %+v were sent", result.Sent, result.Counts)
	}
	if stats[0].Stats.Came != 0 || stats[1].Stats.Came < 3_000_000 {
		t.Errorf("%d bytes came to who has it, %d to another", stats[0].Stats.Came, stats[1].Stats.Came)
	}
}

// C54: a file of the same name and size that is another is not COMPLETE, and is replaced: at all, or at one
// while others have the right one, or nothing.
func TestC54WrongFileOfTheSameSize(t *testing.T) {
	for name, has := range map[string]struct{ wrong, right []int }{
		"all wrong": {[]int{0, 1, 2}, nil}, "one wrong": {[]int{1}, []int{0, 2}}, "one of each": {[]int{1}, []int{2}},
	} {
		t.Run(name, func(t *testing.T) {
			b := onLAN(t, 3, lanShape)
			b.file(2_000_000)
			b.give(has.right...)
			b.give(has.wrong...)
			for _, i := range has.wrong {
				at := filepath.Join(b.dirs[i], "object")
				content, err := os.ReadFile(at)
				if err != nil {
					t.Fatal(err)
				}
				content[rand.IntN(len(content))] ^= 1
				if err := os.WriteFile(at, content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			result, stats := b.replicate()
			for _, i := range has.wrong {
				if stats[i].Resumed != 0 || stats[i].Stats.Came < 2_000_000 {
					t.Errorf("receiver %d: %d bytes came, %d were there", i+1, stats[i].Stats.Came, stats[i].Resumed)
				}
			}
			if result.Counts.Packets > 2000 {
				t.Errorf("%+v were sent for %d bytes", result.Counts, 2_000_000)
			}
		})
	}
}

// A replica that reads for longer what it has than the sender waits for joins is waited for, alone and beside
// others.
func TestLongReadingIsWaitedFor(t *testing.T) {
	for _, receivers := range []int{1, 3} {
		b := onLAN(t, receivers, lanShape)
		b.file(500_000)
		begun := time.Now()
		receipts := b.receiveAll(t.Context(), func(c *receive.Config) {
			if open := c.Open; c.Name == "receiver1" || c.Name == "receiver" {
				c.Open = func(ctx context.Context, info object.Info) (receive.Landing, error) {
					<-time.After(4 * time.Second) // as long as it takes to read
					return open(ctx, info)
				}
			}
		})
		result, err := b.send(t.Context(), func(c *send.Config) { c.Wait = time.Second })
		if err != nil {
			t.Fatal(err)
		}
		for i := receivers - 1; i >= 0; i-- {
			r := <-receipts[i]
			if r.err != nil || r.Root != result.Root {
				t.Errorf("receiver %d of %d: %v", i+1, receivers, r.err)
			}
			b.wantCopies(i)
		}
		if len(result.Members) != receivers || time.Since(begun) < 4*time.Second {
			t.Errorf("%d of %d joined, after %v", len(result.Members), receivers, time.Since(begun))
		}
	}
}

// A replica that has neither what was there nor what an earlier one left unfinished, for both are of another content, receives all:
// nothing is damaged. Devices, and images that are made alike, have one time whatever they have in them.
func TestWholeAndUnfinishedOfOtherContent(t *testing.T) {
	b := onLAN(t, 1, lanShape)
	b.file(2_000_000)
	source, err := send.OpenObject(t.Context(), b.path)
	if err != nil {
		t.Fatal(err)
	}
	unfinished, err := object.Land(t.Context(), b.dirs[0], source.Info())
	if err == nil {
		_, err = unfinished.Write(make([]byte, 1_000_000))
	}
	if err := errors.Join(err, unfinished.Keep(), source.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.dirs[0], "object"), make([]byte, 2_000_000), 0o600); err != nil {
		t.Fatal(err)
	}
	result, stats := b.replicate()
	if result.Members[0].Outcome != algo.Complete || stats[0].Resumed != 0 {
		t.Errorf("%+v, %+v", result.Members, stats)
	}
}

// A receiver that comes late and has it already is complete although the only one that it is sent to leaves, or is gone, before all was sent:
// the sender reads the rest for the root, and sends nothing of it. One that turns out to have something else gets all.
func TestWhoHasItOutlivesWhoIsSentTo(t *testing.T) {
	for name, c := range map[string]struct{ isOther, leaves bool }{
		"the other leaves": {false, true}, "the other is gone": {false, false}, "it has something else": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := onLAN(t, 2, lanShape)
			b.file(6_000_000)
			b.give(1)
			if at := filepath.Join(b.dirs[1], "object"); c.isOther {
				if err := os.WriteFile(at, make([]byte, 6_000_000), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			first, end := context.WithCancel(ctx)
			defer end()
			begun, landed := make(chan struct{}), make(chan struct{})
			begins, lands := closing(begun), closing(landed)
			b.told = func(p send.Progress) {
				if p.Sent > 1_000_000 {
					begins()
				}
				if len(p.Members) == 2 && p.Members[1].Landed == 6_000_000 {
					lands()
				}
			}
			gone := b.receive(first, 0, func(r *receive.Config) { r.Leaves = c.leaves })
			late := make(chan received, 1)
			go func() {
				<-begun
				done := b.receive(ctx, 1)
				<-landed
				end()
				late <- <-done
			}()
			result, err := b.send(ctx, func(s *send.Config) { s.Receivers, s.Ceiling, s.Patience = 1, 1_000_000, 2*time.Second })
			if r := <-gone; !errors.Is(r.err, context.Canceled) || err != nil {
				t.Fatalf("the first one: %v; the sender: %v", r.err, err)
			}
			if r := <-late; r.err != nil || r.Root != result.Root || (r.Resumed == 0) != c.isOther || (result.Sent == 6_000_000) != c.isOther {
				t.Errorf("the late one: %+v, %v, and %d bytes were sent", r.Receipt, r.err, result.Sent)
			}
			b.wantCopies(1)
		})
	}
}
