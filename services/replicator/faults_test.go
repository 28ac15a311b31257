package replicator_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/e2e/lab/link"
	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

var lanShape = link.Shape{Rate: 50 * link.Mbit, Delay: 100 * time.Microsecond, Queue: link.Packets(200)}

func (b *bench) receiveAll(ctx context.Context, change ...func(*receive.Config)) (receipts []<-chan received) {
	for i := range b.receivers {
		receipts = append(receipts, b.receive(ctx, i, change...))
	}
	return receipts
}

// C58: two sessions on one group and port are told apart by their keys.
func TestTwoSessionsOnOneGroup(t *testing.T) {
	b := onLAN(t, 2, lanShape)
	b.file(2_000_000)
	other := []byte("another key")
	first, second := *b, *b
	first.receivers, second.receivers = b.receivers[:1], b.receivers[1:]
	second.dirs = b.dirs[1:]
	second.file(1_500_000)
	mine := first.receive(t.Context(), 0)
	theirs := second.receive(t.Context(), 0, func(c *receive.Config) { c.Key = other })
	type sent struct {
		send.Result
		err error
	}
	done := make(chan sent)
	go func() {
		result, err := second.send(t.Context(), func(c *send.Config) { c.Key = other })
		done <- sent{result, err}
	}()
	result, err := first.send(t.Context())
	first.wantComplete(result, err, mine)
	also := <-done
	second.wantComplete(also.Result, also.err, theirs)
	first.wantCopies(0)
	second.wantCopies(0)
}

// C38: a path that carries only small packets is found out before anything is sent.
func TestSmallPacketsWhereLargeOnesAreLost(t *testing.T) {
	b := onLAN(t, 1, link.Shape{MTU: 1280})
	b.file(500_000)
	receipts := b.receiveAll(t.Context())
	result, err := b.send(t.Context())
	b.wantComplete(result, err, receipts...)
	b.wantCopies(0)
	if result.Datagram > 1280-28 {
		t.Errorf("datagrams have %d bytes on a path of 1280", result.Datagram)
	}
}

// full is a disk that is full at some point.
type full struct {
	receive.Landing
	room int
}

func (f *full) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, noroom.Err
	}
	return f.Landing.Write(p)
}

// C48: a receiver whose disk is full says so, and others are not affected.
func TestFullDiskFailsAlone(t *testing.T) {
	b := onLAN(t, 3, lanShape)
	b.file(2_000_000)
	receipts := b.receiveAll(t.Context(), func(c *receive.Config) {
		if c.Name != "receiver2" {
			return
		}
		land := c.Open
		c.Open = func(ctx context.Context, info object.Info) (receive.Landing, error) {
			landing, err := land(ctx, info)
			return &full{landing, 1_000_000}, err
		}
	})
	result, err := b.send(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, one := range receipts {
		if r := <-one; (i == 1) != errors.Is(r.err, noroom.Err) || i != 1 && r.err != nil {
			t.Errorf("receiver %d: %v", i+1, r.err)
		}
	}
	for _, m := range result.Members {
		if (m.Name == "receiver2") != (m.Outcome == algo.Failed && m.Reason == "no_room") {
			t.Errorf("%s: %v %s", m.Name, m.Outcome, m.Reason)
		}
	}
	if left, err := os.ReadDir(b.dirs[1]); err != nil || len(left) > 0 {
		t.Errorf("the full disk still has %v: %v", left, err)
	}
	b.wantCopies(0, 2)
}

// A receiver whose user ends it says so: the sender does not wait for it, and it goes on another time.
func TestReceiverLeaves(t *testing.T) {
	b := onLAN(t, 2, lanShape)
	b.file(6_000_000)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	const patience = 20 * time.Second
	started := time.Now()
	leaving := b.receive(ctx, 0, func(c *receive.Config) {
		c.Leaves = true
		c.Open = func(ctx context.Context, info object.Info) (receive.Landing, error) {
			time.AfterFunc(200*time.Millisecond, interrupt)
			return object.Land(ctx, b.dirs[0], info)
		}
	})
	staying := b.receive(t.Context(), 1)
	result, err := b.send(t.Context(), func(c *send.Config) { c.Patience = patience })
	if took := time.Since(started); err != nil || took > patience {
		t.Errorf("it took %v, %v: the one that left was waited for", took, err)
	}
	if r := <-leaving; !errors.Is(r.err, context.Canceled) {
		t.Errorf("the one that left: %v", r.err)
	}
	if r := <-staying; r.err != nil {
		t.Error(r.err)
	}
	for _, m := range result.Members {
		if (m.Name == "receiver1") != (m.Outcome == algo.Failed && m.Reason == "left") {
			t.Errorf("%s: %v %s", m.Name, m.Outcome, m.Reason)
		}
	}
	b.wantCopies(1)
}

// A receiver whose user ends it while it has the whole be on disk waits for that, and the sender is told how it went.
func TestReceiverLeavesWhenItIsWhole(t *testing.T) {
	b := onLAN(t, 1, lanShape)
	b.file(500_000)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	leaving := b.receive(ctx, 0, func(c *receive.Config) {
		c.Leaves = true
		c.Open = func(ctx context.Context, info object.Info) (receive.Landing, error) {
			landing, err := object.Land(ctx, b.dirs[0], info)
			return &breaking{Landing: landing, last: func() {
				interrupt()
				<-time.After(500 * time.Millisecond) // as long as a disk takes for what it has in memory
			}}, err
		}
	})
	result, err := b.send(t.Context())
	b.wantComplete(result, err, leaving)
	b.wantCopies(0)
}

// C61, P2: a sender that goes leaves nobody waiting, and one that receives again goes on where it was, of which the sender knows, too.
func TestReceiversGoOnAfterTheSender(t *testing.T) {
	b := onLAN(t, 2, lanShape)
	b.file(6_000_000)
	ctx, kill := context.WithCancel(t.Context())
	receipts := b.receiveAll(t.Context(), func(c *receive.Config) { c.Patience = 2 * time.Second })
	source, err := send.OpenObject(t.Context(), b.path)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	_, err = b.send(ctx, func(c *send.Config) { c.Source = &failing{Object: source, after: 3_000_000, then: kill} })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the sender ended with %v", err)
	}
	for i, one := range receipts {
		if r := <-one; !errors.Is(r.err, receive.ErrSenderGone) {
			t.Errorf("receiver %d: %v", i+1, r.err)
		}
	}
	receipts = b.receiveAll(t.Context())
	result, err := b.send(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, one := range receipts {
		if r := <-one; r.err != nil || r.Resumed == 0 {
			t.Errorf("receiver %d went on from %d: %v", i+1, r.Resumed, r.err)
		} else if m := result.Members[slices.IndexFunc(result.Members, func(m send.Receipt) bool { return m.Name == b.receivers[i].Name() })]; m.Resumed != r.Resumed {
			t.Errorf("receiver %d went on from %d, and the sender tells of %d", i+1, r.Resumed, m.Resumed)
		}
	}
	if packets := result.Counts.Packets; packets > 3500 {
		t.Errorf("%d packets were sent for the second half", packets)
	}
	b.wantCopies(0, 1)
}

// failing is a source whose sender ends when so much was read.
type failing struct {
	*send.Object
	after uint64
	then  func()
}

func (f *failing) ReadAt(p []byte, offset uint64) error {
	if offset > f.after {
		f.then()
	}
	return f.Object.ReadAt(p, offset)
}

// A sender whose source changes under it says so to all: they need not wait until they miss it. What came of it is of no use as a rule, and they
// say where it is.
func TestFailedSenderIsHeardOf(t *testing.T) {
	b := onLAN(t, 2, lanShape)
	b.file(6_000_000)
	receipts := b.receiveAll(t.Context(), func(c *receive.Config) { c.Patience, c.Path = time.Minute, "/srv/images" })
	source, err := send.OpenObject(t.Context(), b.path)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	cut := func() { _ = os.Truncate(b.path, 1000) }
	result, err := b.send(t.Context(), func(c *send.Config) { c.Source = &failing{Object: source, after: 3_000_000, then: cut} })
	if !errors.Is(err, object.ErrChanged) || strings.Contains(err.Error(), "/proc") || len(result.Members) != len(receipts) {
		t.Errorf("the sender ended with %v, and tells of %d receivers", err, len(result.Members))
	}
	for i, one := range receipts {
		r := <-one
		const then = "is shorter than it was; receive again: if its content has changed, that begins anew, and what came, in /srv/images/.groupcast-partial, can be removed"
		if !errors.Is(r.err, receive.ErrSenderFailed) || !strings.HasSuffix(r.err.Error(), then) {
			t.Errorf("receiver %d: %v", i+1, r.err)
		}
	}
}

// A sender that ends because another could not read the source says so, too: it has not just gone.
func TestBrokenOffSenderSaysWhy(t *testing.T) {
	b := onLAN(t, 2, lanShape)
	b.file(6_000_000)
	ctx, breakOff := context.WithCancelCause(t.Context())
	receipts := b.receiveAll(t.Context(), func(c *receive.Config) { c.Patience = time.Minute })
	source, err := send.OpenObject(t.Context(), b.path)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	elsewhere := &send.BrokenOffError{Err: errors.New("read block 7: input/output error")}
	_, err = b.send(ctx, func(c *send.Config) {
		c.Source = &failing{Object: source, after: 3_000_000, then: func() { breakOff(elsewhere) }}
	})
	if !errors.Is(err, elsewhere) {
		t.Errorf("the sender ended with %v", err)
	}
	for i, one := range receipts {
		if r := <-one; receive.Word(r.err) != "source_failed" || !strings.Contains(r.err.Error(), elsewhere.Error()) {
			t.Errorf("receiver %d: %v", i+1, r.err)
		}
	}
}

// C38, C59: a receiver that hears no sender says so, and so does a sender that nobody hears: with another key, and over a path that carries not
// even the smallest datagrams.
func TestSilenceIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		path link.Shape
		key  []byte
	}{
		"another key":   {link.Shape{}, []byte("another key")},
		"a narrow path": {link.Shape{MTU: 1200}, key},
	} {
		t.Run(name, func(t *testing.T) {
			b := onLAN(t, 1, c.path)
			b.file(1000)
			heard := b.receive(t.Context(), 0, func(r *receive.Config) { r.Key, r.Await = c.key, 500*time.Millisecond })
			if _, err := b.send(t.Context(), func(s *send.Config) { s.Wait = 500 * time.Millisecond }); !errors.Is(err, send.ErrNobody) {
				t.Errorf("the sender: %v", err)
			}
			if r := <-heard; !errors.Is(r.err, receive.ErrNotHeard) || receive.Word(r.err) != "no_multicast" {
				t.Errorf("the receiver: %v", r.err)
			}
		})
	}
}

// Directories, empty files and holes, also to where there is room only for what is in no hole.
func TestReplicateWhatIsNoPlainFile(t *testing.T) {
	b := onLAN(t, 2, link.Shape{})
	b.dirs[0] = filepath.Join(t.TempDir(), "small")
	testdisk.Mount(t, "tmpfs", "size=8m", "tmpfs", b.dirs[0])
	tree := filepath.Join(t.TempDir(), "tree")
	if err := os.MkdirAll(filepath.Join(tree, "below", "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{"a": 300_000, "below/b": 1, "below/c": 0, "d": 200_000} {
		if err := os.WriteFile(filepath.Join(tree, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	empty, holes, inTree := filepath.Join(t.TempDir(), "empty"), filepath.Join(t.TempDir(), "holes"), filepath.Join(tree, "below", "holes")
	err := os.WriteFile(empty, nil, 0o600)
	for _, sparse := range []string{holes, inTree} {
		err = errors.Join(err, os.WriteFile(sparse, []byte("begin"), 0o600), os.Truncate(sparse, 10_000_000))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{tree, empty, holes} {
		b.path = path
		receipts := b.receiveAll(t.Context())
		result, err := b.send(t.Context())
		b.wantComplete(result, err, receipts...)
		for i := range b.receivers {
			root, there, err := object.Existing(t.Context(), b.dirs[i], result.Info)
			if err != nil || !there || root != result.Root {
				t.Errorf("receiver %d has of %s: %v, %v", i+1, path, there, err)
			}
		}
		if result.Counts.Packets > 600 {
			t.Errorf("%d packets were sent for %s, of which most is a hole", result.Counts.Packets, path)
		}
	}
	for i, dir := range b.dirs {
		var stat unix.Stat_t
		if err := unix.Stat(filepath.Join(dir, "tree", "below", "holes"), &stat); err != nil || stat.Blocks*512 > 1_000_000 {
			t.Errorf("receiver %d has %d bytes on disk of a file that is a hole: %v", i+1, stat.Blocks*512, err)
		}
	}
}
