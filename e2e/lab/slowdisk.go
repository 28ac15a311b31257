package lab

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/groupcast/groupcast/e2e/lab/link"
)

// pace is how slow a disk is. All its files share one arm.
type pace struct {
	mu    sync.Mutex
	rate  link.Rate
	sync  time.Duration
	ready time.Time // when the arm is free
}

// Slow makes every write take its size at this rate, and every sync at least
// this long. Zeros make the disk fast again.
func (d *Disk) Slow(rate link.Rate, sync time.Duration) error {
	if d.server == nil {
		return fmt.Errorf("slow the disk of %s: it is not slowable", d.host.name)
	}
	d.pace.mu.Lock()
	defer d.pace.mu.Unlock()
	d.pace.rate, d.pace.sync = rate, sync
	return nil
}

func (p *pace) write(size int) {
	p.occupy(func() time.Duration { return p.rate.Time(link.Bytes(size)) })
}

func (p *pace) flush() { p.occupy(func() time.Duration { return p.sync }) }

// occupy waits for the arm and holds it for as long as duration says.
func (p *pace) occupy(duration func() time.Duration) {
	p.mu.Lock()
	now := time.Now()
	if p.ready.Before(now) {
		p.ready = now
	}
	p.ready = p.ready.Add(duration())
	left := p.ready.Sub(now)
	p.mu.Unlock()
	if left > 0 {
		pause(left)
	}
}

// serve puts a file system of this process over the one at DiskPath, which
// stays beneath. It runs on the keeper.
func (d *Disk) serve() error {
	beneath, err := os.Open(DiskPath)
	if err != nil {
		return err
	}
	root, err := fs.NewLoopbackRoot(fmt.Sprintf("/proc/self/fd/%d", beneath.Fd()))
	if err != nil {
		_ = beneath.Close()
		return err
	}
	server, err := fs.Mount(DiskPath, &slowNode{LoopbackNode: root.(*fs.LoopbackNode), pace: &d.pace}, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "groupcast-lab", Name: "slow"},
	})
	if err != nil {
		_ = beneath.Close()
		return fmt.Errorf("serve a slow disk: %w", err)
	}
	d.server, d.beneath = server, beneath
	return nil
}

// slowNode is a file or folder of a slowable disk.
type slowNode struct {
	*fs.LoopbackNode
	pace *pace
}

var (
	_ fs.NodeWrapChilder     = (*slowNode)(nil)
	_ fs.NodeOpener          = (*slowNode)(nil)
	_ fs.NodeCreater         = (*slowNode)(nil)
	_ fs.NodeFsyncer         = (*slowNode)(nil)
	_ fs.FileWriter          = (*slowFile)(nil)
	_ fs.FileWritever        = (*slowFile)(nil)
	_ fs.FilePassthroughFder = (*slowFile)(nil)
)

// WrapChild makes the files of a slow disk slow.
func (n *slowNode) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &slowNode{LoopbackNode: child.(*fs.LoopbackNode), pace: n.pace}
}

// Open implements fs.NodeOpener.
func (n *slowNode) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	file, answer, errno := n.LoopbackNode.Open(ctx, flags)
	return n.slow(file), answer, errno
}

// Create implements fs.NodeCreater.
func (n *slowNode) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	inode, file, answer, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	return inode, n.slow(file), answer, errno
}

func (n *slowNode) slow(file fs.FileHandle) fs.FileHandle {
	if plain, ok := file.(*fs.LoopbackFile); ok {
		return &slowFile{LoopbackFile: plain, pace: n.pace}
	}
	return file
}

// Fsync implements fs.NodeFsyncer, for files and folders.
func (n *slowNode) Fsync(ctx context.Context, file fs.FileHandle, flags uint32) syscall.Errno {
	n.pace.flush()
	if syncer, ok := file.(fs.FileFsyncer); ok {
		return syncer.Fsync(ctx, flags)
	}
	return 0 // a folder: there is nothing beneath but memory
}

// slowFile is an open file.
type slowFile struct {
	*fs.LoopbackFile
	pace *pace
}

// PassthroughFd keeps the kernel from writing past us.
func (f *slowFile) PassthroughFd() (int, bool) { return 0, false }

// Write implements fs.FileWriter.
func (f *slowFile) Write(ctx context.Context, data []byte, at int64) (uint32, syscall.Errno) {
	f.pace.write(len(data))
	return f.LoopbackFile.Write(ctx, data, at)
}

// Writev implements fs.FileWritever.
func (f *slowFile) Writev(ctx context.Context, data [][]byte, at int64) (uint32, syscall.Errno) {
	total := 0
	for _, part := range data {
		total += len(part)
	}
	f.pace.write(total)
	return f.LoopbackFile.Writev(ctx, data, at)
}
