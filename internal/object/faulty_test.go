package object_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/testdisk"
)

// faults makes one call to a faulty disk fail.
type faults struct {
	mu     sync.Mutex
	call   string // write, fsync, …
	errno  syscall.Errno
	before int // calls of this kind that succeed first
	fired  bool
}

// arm makes the call after so many of its kind fail, once.
func (f *faults) arm(call string, errno syscall.Errno, before int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.call, f.errno, f.before, f.fired = call, errno, before, false
}

func (f *faults) disarm() (fired bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.call = ""
	return f.fired
}

// hit returns what a call shall fail with.
func (f *faults) hit(call string) syscall.Errno {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.call != call || f.fired {
		return 0
	}
	if f.before--; f.before >= 0 {
		return 0
	}
	f.fired = true
	return f.errno
}

// faultyDisk mounts a file system of this process over a directory.
func faultyDisk(t *testing.T) (dir string, f *faults) {
	t.Helper()
	testdisk.NeedRoot(t)
	beneath, dir := testdisk.Memory(t, "size=256m"), filepath.Join(t.TempDir(), "faulty")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := fs.NewLoopbackRoot(beneath)
	if err != nil {
		t.Fatal(err)
	}
	f = &faults{}
	server, err := fs.Mount(dir, &faultyNode{root.(*fs.LoopbackNode), f}, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "groupcast-object", Name: "faulty"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			t.Error(err)
		}
		server.Wait()
	})
	return dir, f
}

type faultyNode struct {
	*fs.LoopbackNode
	faults *faults
}

var (
	_ fs.NodeWrapChilder     = (*faultyNode)(nil)
	_ fs.NodeOpener          = (*faultyNode)(nil)
	_ fs.NodeCreater         = (*faultyNode)(nil)
	_ fs.NodeMkdirer         = (*faultyNode)(nil)
	_ fs.NodeRenamer         = (*faultyNode)(nil)
	_ fs.NodeSetattrer       = (*faultyNode)(nil)
	_ fs.NodeFsyncer         = (*faultyNode)(nil)
	_ fs.NodeUnlinker        = (*faultyNode)(nil)
	_ fs.NodeStatfser        = (*faultyNode)(nil)
	_ fs.NodeCopyFileRanger  = (*faultyNode)(nil)
	_ fs.FileWriter          = (*faultyFile)(nil)
	_ fs.FileFlusher         = (*faultyFile)(nil)
	_ fs.FilePassthroughFder = (*faultyFile)(nil)
)

func (n *faultyNode) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &faultyNode{child.(*fs.LoopbackNode), n.faults}
}

func (n *faultyNode) wrap(file fs.FileHandle) fs.FileHandle {
	if plain, ok := file.(*fs.LoopbackFile); ok {
		return &faultyFile{plain, n.faults}
	}
	return file
}

func (n *faultyNode) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if errno := n.faults.hit("open"); errno != 0 {
		return nil, 0, errno
	}
	file, answer, errno := n.LoopbackNode.Open(ctx, flags)
	return n.wrap(file), answer, errno
}

func (n *faultyNode) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	if errno := n.faults.hit("create"); errno != 0 {
		return nil, nil, 0, errno
	}
	inode, file, answer, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	return inode, n.wrap(file), answer, errno
}

func (n *faultyNode) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if errno := n.faults.hit("mkdir"); errno != 0 {
		return nil, errno
	}
	return n.LoopbackNode.Mkdir(ctx, name, mode, out)
}

func (n *faultyNode) Rename(ctx context.Context, name string, parent fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	if errno := n.faults.hit("rename"); errno != 0 {
		return errno
	}
	if flags&unix.RENAME_EXCHANGE != 0 {
		if errno := n.faults.hit("exchange"); errno != 0 {
			return errno
		}
	}
	return n.LoopbackNode.Rename(ctx, name, parent, newName, flags)
}

func (n *faultyNode) Setattr(ctx context.Context, file fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if errno := n.faults.hit("setattr"); errno != 0 {
		return errno
	}
	return n.LoopbackNode.Setattr(ctx, file, in, out)
}

func (n *faultyNode) Fsync(ctx context.Context, file fs.FileHandle, flags uint32) syscall.Errno {
	if errno := n.faults.hit("fsync"); errno != 0 {
		return errno
	}
	return 0 // beneath is memory
}

func (n *faultyNode) Unlink(ctx context.Context, name string) syscall.Errno {
	if errno := n.faults.hit("unlink"); errno != 0 {
		return errno
	}
	return n.LoopbackNode.Unlink(ctx, name)
}

// Statfs has transfers in larger pieces than those that are counted.
func (n *faultyNode) Statfs(ctx context.Context, out *fuse.StatfsOut) syscall.Errno {
	errno := n.LoopbackNode.Statfs(ctx, out)
	out.Bsize = 64 * out.Frsize
	return errno
}

// CopyFileRange makes the kernel write instead.
func (n *faultyNode) CopyFileRange(context.Context, fs.FileHandle, uint64, *fs.Inode, fs.FileHandle, uint64, uint64, uint64) (uint32, syscall.Errno) {
	return 0, syscall.ENOSYS
}

type faultyFile struct {
	*fs.LoopbackFile
	faults *faults
}

func (f *faultyFile) PassthroughFd() (int, bool) { return 0, false }

func (f *faultyFile) Write(ctx context.Context, data []byte, at int64) (uint32, syscall.Errno) {
	if errno := f.faults.hit("write"); errno != 0 {
		return 0, errno
	}
	if f.faults.hit("short write") != 0 {
		data = data[:(len(data)+1)/2]
	}
	return f.LoopbackFile.Write(ctx, data, at)
}

func (f *faultyFile) Flush(ctx context.Context) syscall.Errno {
	if errno := f.faults.hit("close"); errno != 0 {
		return errno
	}
	return f.LoopbackFile.Flush(ctx)
}

// C49: one call fails, whichever: the landing fails, even if the next call of
// its kind succeeds, or what has landed is right all the same. The final name
// holds the old object or the new one. A later landing completes it.
func TestC49Faults(t *testing.T) {
	disk, f := faultyDisk(t)
	object.ClaimOften(t, 1<<14, 2*time.Millisecond)
	from := t.TempDir()
	plant(t, from, map[string]string{"file": strings.Repeat("f", 60_000)})
	for i := range 4 {
		plant(t, from, map[string]string{fmt.Sprintf("tree/d%d/f", i): strings.Repeat("t", 15_000), fmt.Sprintf("tree/e%d", i): ""})
	}
	for _, fault := range []struct {
		call  string
		errno syscall.Errno
		fatal bool // whenever it happens
	}{
		{"write", syscall.EIO, true},
		{"write", syscall.ENOSPC, true},
		{"write", syscall.EINTR, false},
		{"short write", syscall.EIO, false},
		{"fsync", syscall.EIO, true},
		{"fsync", syscall.ENOSPC, true},
		{"fsync", syscall.EDQUOT, true},
		{"fsync", syscall.EINTR, false}, // nothing is lost by that: Go waits again
		{"rename", syscall.EIO, true},
		{"close", syscall.EIO, false}, // of a file that was read, at the end
		{"create", syscall.EIO, true},
		{"mkdir", syscall.EIO, true},
		{"setattr", syscall.EIO, true},
		{"open", syscall.EIO, false},   // of what is removed at the end
		{"unlink", syscall.EIO, false}, // of what is left at the end
	} {
		name := fault.call + " " + unix.ErrnoName(fault.errno)
		t.Run(name, func(t *testing.T) {
			failures := 0
			for before := 0; ; before++ {
				for _, kind := range []string{"file", "tree"} {
					to := filepath.Join(disk, fmt.Sprint(name, before, kind))
					e := experiment{t: t, source: open(t, filepath.Join(from, kind)), to: to, keep: before%2 == 0, replace: before%3 != 0}
					f.arm(fault.call, fault.errno, before)
					fired, err := e.run(f)
					if fired && err == nil && fault.fatal {
						t.Errorf("call %d for the %s failed, and it is complete", before, kind)
					}
					if !fired && err != nil {
						t.Errorf("nothing failed for the %s: %v", kind, err)
					}
					full := fault.errno == syscall.ENOSPC || fault.errno == syscall.EDQUOT
					if err != nil && full != errors.Is(err, noroom.Err) {
						t.Errorf("%v: no room is %v", err, !full)
					}
					if fired {
						failures++
					} else if kind == "tree" {
						t.Logf("%d faults", failures)
						return
					}
				}
			}
		})
	}
}

// A file system that cannot replace a directory at once, as NFS, says so before anything lands: nothing is changed, and
// nothing left. Once that is moved away, all is as anywhere.
func TestReplacingThatCannotBeIsRefused(t *testing.T) {
	disk, f := faultyDisk(t)
	from := t.TempDir()
	plant(t, from, map[string]string{"tree/new": "new"})
	plant(t, disk, map[string]string{"tree/old": "old"})
	before := tree(t, disk)
	source := open(t, filepath.Join(from, "tree"))
	f.arm("exchange", syscall.EINVAL, 0)
	landing, err := object.Land(t.Context(), disk, source.Info())
	if err == nil {
		_ = landing.Remove()
	}
	if !object.IsRefused(err) || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("%v, want it refused", err)
	}
	if diff := cmp.Diff(before, tree(t, disk)); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
	if err := os.Rename(filepath.Join(disk, "tree"), filepath.Join(disk, "away")); err != nil {
		t.Fatal(err)
	}
	f.arm("exchange", syscall.EINVAL, 0)
	if err := landWhole(t, source, land(t, disk, source.Info())); err != nil || f.disarm() {
		t.Errorf("with nothing to replace: %v", err)
	}
}

// What could not be swept was not.
func TestSweepCountsWhatIsGone(t *testing.T) {
	disk, f := faultyDisk(t)
	landing := land(t, disk, hello)
	if err := errors.Join(put(landing, []byte("hell")), landing.Keep()); err != nil {
		t.Fatal(err)
	}
	f.arm("unlink", syscall.EIO, 0)
	if removed, err := object.Sweep(disk, -time.Hour); removed != 0 || !errors.Is(err, syscall.EIO) {
		t.Errorf("swept %d: %v", removed, err)
	}
	if removed, err := object.Sweep(disk, -time.Hour); removed != 1 || err != nil {
		t.Errorf("swept %d without a fault: %v", removed, err)
	}
}

// Room is counted in fragments, not in the blocks that are best to transfer.
func TestRoomIsCountedInFragments(t *testing.T) {
	disk, _ := faultyDisk(t) // of 256 MiB
	dir, err := os.Open(disk)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for bytes, fits := range map[uint64]bool{128 << 20: true, 1 << 30: false} {
		if err := object.CheckRoom(dir, bytes, 1); fits != (err == nil) || !fits && !errors.Is(err, noroom.Err) {
			t.Errorf("%d bytes: %v", bytes, err)
		}
	}
}

// experiment is one landing on a faulty disk.
type experiment struct {
	t             *testing.T
	source        *object.Source
	to            string
	keep, replace bool
}

// run lets the source land while a fault happens, and then again without.
func (e experiment) run(f *faults) (fired bool, err error) {
	e.t.Helper()
	call, errno, before := f.call, f.errno, f.before
	f.disarm()
	old := object.Root{}
	if err := os.Mkdir(e.to, 0o700); err != nil {
		e.t.Fatal(err)
	}
	name := e.source.Info().Name
	if e.replace {
		plant(e.t, e.to, map[string]string{map[string]string{"file": "file", "tree": "tree/old"}[name]: "old"})
		old = finalRoot(e.t, e.to, name)
	}
	f.arm(call, errno, before)
	err = e.attempt()
	fired = f.disarm()
	want := rootOf(e.t, e.source)
	switch got := finalRoot(e.t, e.to, name); {
	case got != want && got != old:
		e.t.Errorf("the final name holds %v: neither %v nor %v", got, old, want)
	case err == nil && got != want:
		e.t.Errorf("it is complete, and the final name holds %v", got)
	}
	if err := landWhole(e.t, e.source, land(e.t, e.to, e.source.Info())); err != nil {
		e.t.Errorf("without faults: %v", err)
	}
	if got := finalRoot(e.t, e.to, name); got != want {
		e.t.Errorf("without faults the final name holds %v, want %v", got, want)
	}
	return fired, err
}

func (e experiment) attempt() error {
	landing, err := object.Land(e.t.Context(), e.to, e.source.Info())
	if err != nil {
		return err
	}
	defer func() {
		if e.keep {
			_ = landing.Keep()
		} else {
			_ = landing.Remove()
		}
	}()
	info, root := e.source.Info(), rootOf(e.t, e.source)
	if err := write(e.source, landing); err != nil {
		return err
	}
	err = landing.Complete(info.Length, root, true)
	if err != nil {
		if again := landing.Complete(info.Length, root, true); again == nil {
			e.t.Errorf("complete when tried again after: %v", err)
		}
	}
	return err
}

// write is deliver by plain writes: a copy by the kernel is tried again by Go
// when the first fails, which is as good, but shows nothing.
func write(source *object.Source, landing *object.Landing) error {
	reader := source.NewReader()
	defer reader.Close()
	buffer := make([]byte, 4096) // the kernel makes one call of each
	for offset := landing.Offset(); offset < source.Info().Length; offset = landing.Offset() {
		file, n, err := reader.Section(offset)
		if err != nil {
			return err
		}
		part := buffer[:min(n, int64(len(buffer)))]
		if _, err := io.ReadFull(file, part); err != nil {
			return err
		}
		if err := put(landing, part); err != nil {
			return err
		}
	}
	return nil
}
