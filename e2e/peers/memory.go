package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/peers/tool"
)

const (
	// heldPage is kept of every stretch of warm memory. The free memory between two such pages is
	// too small to be given back to the host, and consists of pages of the size that is needed:
	// buffers of sockets are half of it.
	heldPage = 4 * link.KiB
	stretch  = 64 * link.KiB
	// spareMemory is how much more than needed is warmed: the kernel takes cold memory before it has used up the warm.
	spareMemory = 4096 * link.MiB
)

// warmMemory takes as much memory as the delivery will need, and frees it in pieces that stay in
// this machine until the returned file is closed. A virtual machine returns free memory to its
// host, and the first program that writes to such memory again pays two seconds of processor time
// per GB. None of the tools must pay for that, nor pay more the longer the comparison takes.
func warmMemory(job *tool.Job) (*os.File, error) {
	needed := link.Bytes(len(job.Receivers)+len(job.Agents)) * job.Size
	needed += min(needed, spareMemory)
	fd, err := unix.MemfdCreate("warm", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("warm the memory: %w", err)
	}
	warm := os.NewFile(uintptr(fd), "warm")
	block := make([]byte, link.MiB)
	for at := link.Bytes(0); at < needed; at += link.MiB {
		if _, err := warm.Write(block); err != nil {
			_ = warm.Close()
			return nil, fmt.Errorf("warm the memory: %w", err)
		}
	}
	for at := link.Bytes(0); at < needed; at += stretch {
		err := unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(at+heldPage), int64(stretch-heldPage))
		if err != nil {
			_ = warm.Close()
			return nil, fmt.Errorf("free the warm memory: %w", err)
		}
	}
	return warm, nil
}
