package replicator_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/e2e/lab/link"
	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// faulty is a disk that fails once in one way, and is well again.
type faulty struct {
	receive.Landing
	at     string
	hit    bool
	before func() // it fails; may be nil
}

func (f *faulty) fails(at string) error {
	if f.hit || f.at != at {
		return nil
	}
	f.hit = true
	if f.before != nil {
		f.before()
	}
	return unix.EIO
}

func (f *faulty) Write(p []byte) (int, error) {
	if f.Offset() < 500_000 {
		return f.Landing.Write(p)
	}
	if f.at == "short write" && !f.hit {
		f.hit = true
		n, _ := f.Landing.Write(p[:len(p)/2])
		return n, io.ErrShortWrite
	}
	if err := f.fails("write"); err != nil {
		return 0, err
	}
	return f.Landing.Write(p)
}

func (f *faulty) Complete(length uint64, root object.Root, durable bool) error {
	if err := f.fails("sync"); err != nil {
		return err
	}
	return f.Landing.Complete(length, root, durable)
}

// C49: a disk that fails once, when it is written to or synced, fails the replica, even if the next call would
// succeed; the others are not affected. (Each call of the kernel that a landing makes: TestC49Faults in internal/object.)
func TestC49FaultyDiskFailsAlone(t *testing.T) {
	for _, at := range []string{"write", "short write", "sync"} {
		t.Run(at, func(t *testing.T) {
			b := onLAN(t, 2, lanShape)
			b.file(1_500_000)
			receipts := b.receiveAll(t.Context(), func(c *receive.Config) {
				if c.Name != "receiver1" {
					return
				}
				land := c.Open
				c.Open = func(ctx context.Context, info object.Info) (receive.Landing, error) {
					landing, err := land(ctx, info)
					return &faulty{Landing: landing, at: at}, err
				}
			})
			result, err := b.send(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if r := <-receipts[0]; !errors.Is(r.err, unix.EIO) && !errors.Is(r.err, io.ErrShortWrite) {
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
			b.wantNone(0)
			b.wantCopies(1)
		})
	}
}

// C49: of a disk that fails while the sender is not heard, managers and the user are told within seconds, whatever became of that one.
func TestC49DiskThatFailsWhileNobodyIsHeard(t *testing.T) {
	b := onLAN(t, 1, lanShape)
	b.file(1_500_000)
	receipts := b.receiveAll(t.Context(), func(c *receive.Config) {
		c.Patience = 0 // managers know whether the sender is there
		land := c.Open
		c.Open = func(ctx context.Context, info object.Info) (receive.Landing, error) {
			landing, err := land(ctx, info)
			return &faulty{Landing: landing, at: "write", before: func() { b.set(b.receivers[0], netlink.LinkSetDown) }}, err
		}
	})
	ctx, end := context.WithCancel(t.Context())
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = b.send(ctx) // it loses its receiver
	}()
	select {
	case r := <-receipts[0]:
		if !errors.Is(r.err, unix.EIO) {
			t.Error(r.err)
		}
	case <-time.After(15 * time.Second):
		t.Error("it is not told that the disk failed")
	}
	end()
	<-sent
}

// C53: a replica with a slow disk has everything when its disk has, whether it may be waited for or is served last; in
// that case the others do not wait for it. (With pace they do as long as it answers, which it does not while it writes.)
func TestC53SlowDisk(t *testing.T) {
	const size = 6_000_000
	for name, slow := range map[string]algo.Slow{"pace": algo.Pace, "detach": algo.Detach} {
		t.Run(name, func(t *testing.T) {
			b := onLAN(t, 3, link.Shape{})
			b.file(size)
			disk, err := b.receivers[2].SlowableDisk(64 * link.MiB)
			if err != nil {
				t.Fatal(err)
			}
			b.dirs[2] = disk.Outside("replicas")
			if err := errors.Join(os.Mkdir(b.dirs[2], 0o700), disk.Slow(8*link.Mbit, 0)); err != nil {
				t.Fatal(err)
			}
			ended := make([]time.Time, 3)
			receipts := b.receiveAll(t.Context())
			var result send.Result
			done := make(chan error, 1)
			go func() {
				var err error
				result, err = b.send(t.Context(), func(c *send.Config) { c.Slow = slow })
				done <- err
			}()
			begun := time.Now()
			for i, one := range receipts { // the slow one is the last
				if r := <-one; r.err != nil {
					t.Errorf("receiver %d: %v", i+1, r.err)
				}
				ended[i] = time.Now()
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			b.wantCopies(0, 1)
			if got, err := os.Stat(filepath.Join(b.dirs[2], "object")); err != nil || got.Size() != size {
				t.Errorf("the slow one has %v: %v", got, err)
			}
			fast, all := ended[1].Sub(begun), ended[2].Sub(begun)
			t.Logf("the fast ones after %v, the slow one after %v; %+v", fast, all, result.Counts)
			if all < 5*time.Second { // 6 MB at 1 MB/s
				t.Errorf("the disk was not slow: %v", all)
			}
			if slow == algo.Detach && fast > all/2 {
				t.Errorf("the fast ones waited for the slow one: %v of %v", fast, all)
			}
		})
	}
}

// thenDown is a disk whose machine is cut off once all is there.
type thenDown struct {
	receive.Landing
	down func()
	at   time.Time // when all was there
}

func (d *thenDown) Complete(length uint64, root object.Root, durable bool) error {
	d.down()
	err := d.Landing.Complete(length, root, durable)
	d.at = time.Now()
	return err
}

// A replica is done when it is on disk, and not when its sender, which is not heard any more, is waited for no longer.
func TestReplicaIsDoneBeforeItsSender(t *testing.T) {
	b := onLAN(t, 1, lanShape)
	b.file(500_000)
	var disk *thenDown
	receipts := b.receiveAll(t.Context(), func(c *receive.Config) {
		land := c.Open
		c.Open = func(ctx context.Context, info object.Info) (receive.Landing, error) {
			landing, err := land(ctx, info)
			disk = &thenDown{Landing: landing, down: func() { b.set(b.receivers[0], netlink.LinkSetDown) }}
			return disk, err
		}
	})
	ctx, end := context.WithCancel(t.Context())
	sent := make(chan error, 1)
	go func() {
		_, err := b.send(ctx)
		sent <- err
	}()
	r := <-receipts[0]
	ended := time.Now()
	end()
	<-sent // it has lost its receiver
	if r.err != nil {
		t.Fatal(r.err)
	}
	if late, waited := r.Done.Sub(disk.at), ended.Sub(disk.at); late < 0 || late > waited/2 {
		t.Errorf("it was done %v after it was on disk, and ended %v after that", late, waited)
	}
	b.wantCopies(0)
}

// C53: a slow disk of many, of which only some are asked at a time, paces all others, too, and next to nothing is sent twice.
func TestC53SlowDiskOfMany(t *testing.T) {
	const size, receivers = 160_000_000, 10
	b := onLAN(t, receivers, link.Shape{})
	b.file(size)
	disk, err := b.receivers[4].SlowableDisk(512 * link.MiB)
	if err != nil {
		t.Fatal(err)
	}
	b.dirs[4] = disk.Outside("replicas")
	if err := errors.Join(os.Mkdir(b.dirs[4], 0o700), disk.Slow(160*link.Mbit, 0)); err != nil {
		t.Fatal(err)
	}
	receipts := b.receiveAll(t.Context())
	result, err := b.send(t.Context())
	b.wantComplete(result, err, receipts...)
	sent := float64(result.Counts.Packets) * float64(result.Datagram) / size
	t.Logf("%.2f times as much was sent, in %v", sent, result.Took)
	if sent > 1.5 { // it was 2.46
		t.Errorf("%.2f times as much was sent, in %v: %+v", sent, result.Took, result.Counts)
	}
}
