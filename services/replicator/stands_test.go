package replicator_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/pulse"
	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// standing is a disk of which one call does not return until it answers.
type standing struct {
	receive.Landing
	at      string
	beats   bool // it is slow: it goes on meanwhile
	pulse   *pulse.Pulse
	answers chan struct{}
	kept    chan struct{} // closed when it was kept
	keeps   *atomic.Int32
}

func (s *standing) stands(at string) {
	if s.at != at {
		return
	}
	beat := time.NewTicker(100 * time.Millisecond)
	defer beat.Stop()
	for {
		select {
		case <-s.answers:
			return
		case <-beat.C:
			if s.beats {
				s.pulse.Beat()
			}
		}
	}
}

func (s *standing) Write(p []byte) (int, error) {
	if s.Offset() > 500_000 {
		s.stands("write")
	}
	return s.Landing.Write(p)
}

func (s *standing) Complete(length uint64, root object.Root, durable bool) error {
	s.stands("complete")
	return s.Landing.Complete(length, root, durable)
}

func (s *standing) Keep() error {
	err := s.Landing.Keep()
	if s.keeps.Add(1) == 1 {
		close(s.kept)
	}
	return err
}

// frozen is a disk whose file system is frozen before something is done: its calls stand in the kernel.
type frozen struct {
	receive.Landing
	at     string
	freeze func()
}

func (f *frozen) Write(p []byte) (int, error) {
	if f.at == "write" && f.Offset() > 500_000 {
		f.freeze()
	}
	return f.Landing.Write(p)
}

func (f *frozen) Complete(length uint64, root object.Root, durable bool) error {
	if f.at == "complete" {
		f.freeze()
	}
	return f.Landing.Complete(length, root, durable)
}

// A real disk that stands in the middle, or when all has come, fails its replica alone. When it answers again, nothing of it holds up
// what comes next, which goes on from what is there.
func TestFrozenDiskFailsAlone(t *testing.T) {
	for _, at := range []string{"write", "complete"} {
		t.Run(at, func(t *testing.T) {
			b := onLAN(t, 2, lanShape)
			b.file(1_500_000)
			b.dirs[0] = testdisk.New(t, "64m").Dir
			thaw := func() {}
			freeze := sync.OnceFunc(func() { thaw = testdisk.Freeze(t, b.dirs[0]) })
			answers := make(chan struct{})
			receipts := b.receiveAll(t.Context(), func(c *receive.Config) {
				if c.Name != "receiver1" {
					return
				}
				c.Path, c.DiskPatience = b.dirs[0], time.Second
				c.Left = func(pulse.Disk, string, time.Time) func() { return func() { close(answers) } }
				land := c.Open
				c.Open = func(ctx context.Context, info object.Info) (receive.Landing, error) {
					landing, err := land(ctx, info)
					return &frozen{landing, at, freeze}, err
				}
			})
			if _, err := b.send(t.Context()); err != nil {
				t.Error(err)
			}
			if r := <-receipts[0]; !errors.Is(r.err, receive.ErrDiskStalled) {
				t.Errorf("the one with the disk: %v", r.err)
			}
			if r := <-receipts[1]; r.err != nil {
				t.Errorf("the other: %v", r.err)
			}
			thaw()
			<-answers
			b.wantNone(0)
			receipts = b.receiveAll(t.Context())
			result, err := b.send(t.Context())
			if r := <-receipts[0]; r.err != nil || r.Resumed == 0 {
				t.Errorf("again: %d bytes were there: %v", r.Resumed, r.err)
			}
			b.wantComplete(result, err, receipts[1])
			b.wantCopies(0, 1)
		})
	}
}

// noDisk is a path on none of which the kernel counts what it does for others.
const noDisk = "/proc/images"

// standsAt has receiver1's disk stand at something until it answers, and waits for it for as long as patience. It returns that landing's
// parts, and what was told when it was left behind, and when it returned.
func standsAt(b *bench, at string, patience time.Duration) (disk *standing, told chan string, change func(c *receive.Config)) {
	disk = &standing{at: at, answers: make(chan struct{}), kept: make(chan struct{}), keeps: new(atomic.Int32)}
	told = make(chan string, 2)
	return disk, told, func(c *receive.Config) {
		if c.Name != "receiver1" {
			return
		}
		c.Path, c.DiskPatience = noDisk, patience
		c.Left = func(_ pulse.Disk, what string, _ time.Time) func() {
			told <- what
			return func() { told <- "answers" }
		}
		land, find := c.Open, c.Find
		c.Find = func(ctx context.Context, info object.Info) (receive.Landing, error) {
			disk.stands("find")
			return find(ctx, info)
		}
		c.Open = func(ctx context.Context, info object.Info) (receive.Landing, error) {
			disk.pulse = pulse.Of(ctx)
			disk.stands("open")
			landing, err := land(ctx, info)
			disk.Landing = landing
			return disk, err
		}
	}
}

// A disk that does not answer, wherever that is, fails its replica alone, and is told of; the others are complete, and the sender ends.
// When it answers after all, what is there is kept, and nothing appears that counts as failed.
func TestDiskThatStandsFailsAlone(t *testing.T) {
	for at, what := range map[string]string{
		"find": "find out whether it is there", "open": "open it, and read what is there of it", "write": "write", "complete": "have all be on disk",
	} {
		t.Run(at, func(t *testing.T) {
			b := onLAN(t, 2, lanShape)
			b.file(1_500_000)
			disk, told, change := standsAt(b, at, time.Second)
			receipts := b.receiveAll(t.Context(), change)
			result, err := b.send(t.Context())
			if err != nil {
				t.Error(err)
			}
			if r := <-receipts[0]; !errors.Is(r.err, receive.ErrDiskStalled) || receive.Word(r.err) != "disk_stalled" || !strings.Contains(r.err.Error(), noDisk) {
				t.Errorf("the one with the disk: %v", r.err)
			}
			if r := <-receipts[1]; r.err != nil {
				t.Errorf("the other: %v", r.err)
			}
			for _, m := range result.Members {
				if (m.Name == "receiver1") != (m.Outcome == algo.Failed && m.Reason == "disk") {
					t.Errorf("%s: %v %s", m.Name, m.Outcome, m.Reason)
				}
			}
			if left := <-told; left != what || disk.keeps.Load() != 0 {
				t.Errorf("told of %q, and kept %d times", left, disk.keeps.Load())
			}
			close(disk.answers)
			if last := <-told; last != "answers" {
				t.Error(last)
			}
			if at != "find" {
				<-disk.kept
			}
			if keeps := disk.keeps.Load(); at != "find" && keeps != 1 {
				t.Errorf("it was kept %d times", keeps)
			}
			b.wantCopies(1)
			b.wantNone(0)
		})
	}
}

// A disk that stands for longer than the sender is patient, and then goes on, is not given up meanwhile: the replica says that it is
// there, and does not take the sender for silent to which it did not listen.
func TestDiskThatGoesOnIsWaitedFor(t *testing.T) {
	b := onLAN(t, 2, lanShape)
	b.file(1_500_000)
	disk, _, change := standsAt(b, "write", time.Minute)
	time.AfterFunc(14*time.Second, func() { close(disk.answers) })
	receipts := b.receiveAll(t.Context(), change, func(c *receive.Config) { c.Patience = 3 * time.Second })
	result, err := b.send(t.Context(), func(c *send.Config) { c.Patience = 12 * time.Second })
	b.wantComplete(result, err, receipts...)
	b.wantCopies(0, 1)
}

// One write may take longer than a sender may be silent, on a disk that goes on all the while: the replica does not take the
// sender for silent to which it did not listen.
func TestSlowWriteIsWaitedFor(t *testing.T) {
	b := onLAN(t, 2, lanShape)
	b.file(1_500_000)
	disk, _, change := standsAt(b, "write", time.Minute)
	disk.beats = true
	time.AfterFunc(5*time.Second, func() { close(disk.answers) })
	receipts := b.receiveAll(t.Context(), change, func(c *receive.Config) { c.Patience = 3 * time.Second })
	result, err := b.send(t.Context())
	b.wantComplete(result, err, receipts...)
	b.wantCopies(0, 1)
}

// What is whole, but not under its name yet when its disk is given up, does not appear later: something newer may be there.
func TestWhatIsGivenUpDoesNotAppear(t *testing.T) {
	b := onLAN(t, 1, lanShape)
	b.file(500_000)
	disk, told, change := standsAt(b, "complete", time.Second)
	receipts := b.receiveAll(t.Context(), change)
	if _, err := b.send(t.Context()); err != nil {
		t.Error(err)
	}
	if r := <-receipts[0]; !errors.Is(r.err, receive.ErrDiskStalled) {
		t.Error(r.err)
	}
	<-told
	newer := filepath.Join(b.dirs[0], "object")
	if err := os.WriteFile(newer, []byte("newer"), 0o600); err != nil {
		t.Fatal(err)
	}
	close(disk.answers)
	<-told
	if got, err := os.ReadFile(newer); err != nil || string(got) != "newer" {
		t.Errorf("%d bytes took its place: %v", len(got), err)
	}
}
