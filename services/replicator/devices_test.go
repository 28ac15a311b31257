package replicator_test

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/testdisk"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
	"github.com/groupcast/groupcast/services/replicator/device"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

const deviceSize = 4 << 20

// disk is a block device, the file that is behind it, and what is noted of it.
type disk struct {
	t                  *testing.T
	path, file, claims string
}

// disk makes a device of a file in a directory.
func (b *bench) disk(dir string) *disk {
	b.t.Helper()
	d := &disk{t: b.t, file: filepath.Join(dir, "device"), claims: b.t.TempDir()}
	d.path = testdisk.Loop(b.t, d.file, deviceSize)
	return d
}

// cutShort has the kernel find no bytes from the middle of the file on: it cannot read there.
func (d *disk) cutShort() {
	if err := os.Truncate(d.file, deviceSize/2); err != nil {
		d.t.Error(err)
	}
}

// pullOut has the device be what one is to the kernel that was pulled out: nothing is left of it.
func (d *disk) pullOut() {
	if err := os.Truncate(d.file, 0); err != nil {
		d.t.Error(err)
	}
	testdisk.Run(d.t, "losetup", "--set-capacity", d.path)
}

// flush has all that was written be on the device.
func (d *disk) flush() {
	file, err := os.OpenFile(d.path, os.O_WRONLY, 0)
	if err == nil {
		err = errors.Join(file.Sync(), file.Close())
	}
	if err != nil {
		d.t.Error(err)
	}
}

// breaking is a landing to which something happens when so much has landed, and before it is completed.
type breaking struct {
	receive.Landing
	after      uint64
	then, last func()
}

func (l *breaking) Write(p []byte) (int, error) {
	if l.then != nil && l.Offset() > l.after {
		l.then()
		l.then = nil
	}
	return l.Landing.Write(p)
}

func (l *breaking) Complete(length uint64, root object.Root, durable bool) error {
	if l.last != nil {
		l.last()
	}
	return l.Landing.Complete(length, root, durable)
}

func (d *disk) target() device.Target {
	return device.Target{Path: d.path, Allowed: []string{d.path}, State: d.claims}
}

// onto has a receiver write to a device.
func (d *disk) onto(c *receive.Config, then, last func()) {
	c.Find = nil
	c.Open = func(ctx context.Context, info object.Info) (receive.Landing, error) {
		landing, err := device.Land(ctx, d.target(), info)
		return &breaking{Landing: landing, after: deviceSize / 4, then: then, last: last}, err
	}
}

// claimed is how much is noted to be on the device.
func (d *disk) claimed() uint64 {
	d.t.Helper()
	files, err := filepath.Glob(filepath.Join(d.claims, "device-*"))
	if err != nil || len(files) != 1 {
		d.t.Fatalf("noted is %v: %v", files, err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil || len(content) < 16 {
		d.t.Fatalf("%d bytes are noted: %v", len(content), err)
	}
	return binary.BigEndian.Uint64(content[8:])
}

// C49, C57: a device that fails while it is written, when it is synced or read back, or is pulled out, fails its replica alone, which
// says what is wrong; it counts nowhere as complete, and nothing is noted of it as that.
func TestFailingDeviceFailsAlone(t *testing.T) {
	for name, one := range map[string]struct {
		says       string
		isFull     bool // no more than half of it can be written
		then, last func(*disk)
	}{
		"a write":          {says: "write DEVICE at ", then: (*disk).cutShort},
		"a sync":           {says: "sync DEVICE: ", isFull: true},
		"it is read back":  {says: "read DEVICE at ", last: func(d *disk) { d.flush(); d.cutShort() }},
		"it is pulled out": {says: "the device is gone, or smaller than it was", then: (*disk).pullOut},
	} {
		t.Run(name, func(t *testing.T) {
			b := onLAN(t, 2, lanShape)
			b.file(deviceSize)
			dir := testdisk.Memory(t, "size=16m")
			if one.isFull {
				dir = testdisk.Memory(t, "size=2m")
			}
			bad, good := b.disk(dir), b.disk(testdisk.Memory(t, "size=16m"))
			bind := func(do func(*disk)) func() {
				if do == nil {
					return nil
				}
				return func() { do(bad) }
			}
			receipts := b.receiveAll(t.Context(), func(c *receive.Config) {
				if c.Name == "receiver1" {
					bad.onto(c, bind(one.then), bind(one.last))
				} else {
					good.onto(c, nil, nil)
				}
			})
			result, err := b.send(limited(t))
			if err != nil {
				t.Fatal(err)
			}
			says := strings.ReplaceAll(one.says, "DEVICE", bad.path)
			if r := <-receipts[0]; r.err == nil || receive.Word(r.err) != "disk" || !strings.Contains(r.err.Error(), says) {
				t.Errorf("the one with the device: %v, want %q", r.err, says)
			} else if isKernels := errors.Is(r.err, unix.EIO); isKernels == (name == "it is pulled out") {
				t.Errorf("the kernel said that it cannot: %v: %v", isKernels, r.err)
			}
			if r := <-receipts[1]; r.err != nil || r.Root != result.Root {
				t.Errorf("the other: %v", r.err)
			}
			for _, m := range result.Members {
				switch {
				case m.Name == "receiver1" && (m.Outcome != algo.Failed || m.Reason != wire.Disk.String() || !strings.Contains(m.Detail, says)):
					t.Errorf("of the one with the device, the sender says %v %s: %q", m.Outcome, m.Reason, m.Detail)
				case m.Name != "receiver1" && m.Outcome != algo.Complete:
					t.Errorf("of the other, the sender says %v %s", m.Outcome, m.Reason)
				}
			}
			if bad.claimed() == deviceSize || good.claimed() != deviceSize {
				t.Errorf("noted are %d bytes of the one, %d of the other", bad.claimed(), good.claimed())
			}
		})
	}
}

// breakingSource is a source to which something happens when so much was read.
type breakingSource struct {
	send.Source
	after uint64
	then  func()
}

func (s *breakingSource) ReadAt(p []byte, offset uint64) error {
	if s.then != nil && offset > s.after {
		s.then()
		s.then = nil
	}
	return s.Source.ReadAt(p, offset)
}

// A source device that cannot be read any more, or is pulled out, ends the replication at all replicas within seconds, and each is
// told why.
func TestFailingSourceDeviceIsToldOf(t *testing.T) {
	for name, one := range map[string]struct {
		then func(*disk)
		says string
	}{
		"it cannot be read": {(*disk).cutShort, "input/output error"},
		"it is pulled out":  {(*disk).pullOut, "the device is gone, or smaller than it was"},
	} {
		t.Run(name, func(t *testing.T) {
			b := onLAN(t, 2, lanShape)
			b.file(deviceSize)
			dir := testdisk.Memory(t, "size=16m")
			testdisk.Run(t, "cp", b.path, filepath.Join(dir, "device"))
			from := b.disk(dir)
			b.path = from.path
			source, err := device.OpenSource(from.path)
			if err != nil {
				t.Fatal(err)
			}
			defer source.Close()
			var failedAt time.Time
			receipts := b.receiveAll(t.Context(), func(c *receive.Config) { c.Patience = time.Minute })
			_, err = b.sendFrom(limited(t), &breakingSource{Source: source, after: deviceSize / 4, then: func() {
				failedAt = time.Now()
				one.then(from)
			}}, func(c *send.Config) { c.Patience = time.Minute })
			if err == nil || !strings.Contains(err.Error(), from.path) || !strings.Contains(err.Error(), one.says) {
				t.Errorf("the sender ended with %v", err)
			}
			for i, receipt := range receipts {
				if r := <-receipt; receive.Word(r.err) != "source_failed" || !strings.Contains(r.err.Error(), one.says) {
					t.Errorf("receiver %d: %v", i+1, r.err)
				}
				b.wantNone(i)
			}
			if took := time.Since(failedAt); took > 5*time.Second {
				t.Errorf("all know after %v", took)
			}
		})
	}
}

// unread is a device of which it is not known what it has before nobody asks any more.
type unread struct{ *device.Found }

func (unread) Root(ctx context.Context) (object.Root, bool, error) {
	<-ctx.Done()
	return object.Root{}, false, context.Cause(ctx)
}

// A replica that is interrupted while it reads a device that has all already claims afterwards that it has: it is read again the next
// time, and not sent.
func TestInterruptedReadingForgetsNothing(t *testing.T) {
	b := onLAN(t, 1, lanShape)
	b.file(deviceSize)
	d := b.disk(testdisk.Memory(t, "size=16m"))
	receipts := b.receiveAll(t.Context(), func(c *receive.Config) { d.onto(c, nil, nil) })
	result, err := b.send(limited(t))
	b.wantComplete(result, err, receipts...)
	ctx, cancel := context.WithCancel(limited(t))
	receipts = b.receiveAll(ctx, func(c *receive.Config) {
		d.onto(c, nil, nil)
		c.Find = func(ctx context.Context, info object.Info) (receive.Landing, error) {
			found, err := device.Find(d.target(), info)
			if err != nil || found == nil {
				t.Errorf("nothing says that it is there: %v", err)
				return nil, err
			}
			return &breaking{Landing: receive.Inspect(ctx, unread{found}, info.Length), last: cancel}, nil
		}
	})
	sent := make(chan struct{})
	sending, end := context.WithCancel(limited(t))
	go func() {
		defer close(sent)
		_, _ = b.send(sending) // it loses its receiver
	}()
	if r := <-receipts[0]; !errors.Is(r.err, context.Canceled) || d.claimed() != deviceSize {
		t.Errorf("%d bytes are claimed: %v", d.claimed(), r.err)
	}
	end()
	<-sent
}
