package paper002

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
)

// cell is one cell of the paper's tables.
type cell struct {
	buffer      link.Bytes
	connections int
}

func (c cell) String() string {
	return fmt.Sprintf("%d connections with %d bytes", c.connections, c.buffer)
}

// buffers fixes a socket's buffers before it is connected, which is when the window is agreed on.
func buffers(size link.Bytes) lab.Control {
	return func(descriptor int) error {
		for _, option := range []int{unix.SO_SNDBUF, unix.SO_RCVBUF} {
			if err := unix.SetsockoptInt(descriptor, unix.SOL_SOCKET, option, int(size)); err != nil {
				return fmt.Errorf("set a buffer of %d bytes: %w", size, err)
			}
		}
		return nil
	}
}

// port is where the sender listens.
const port = 80

// measure returns how fast a cell's connections carry bytes together, from the first SYN on.
func (n *network) measure(ctx context.Context, c cell, during time.Duration) (link.Rate, error) {
	listener, err := n.florida.Listen(ctx, "tcp4", n.florida.At(port), lab.Congestion(congestion), buffers(c.buffer))
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, during)
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	defer listener.Close()
	running.Go(func() { serve(ctx, listener, &running) })
	var received atomic.Int64
	start := time.Now()
	for range c.connections {
		running.Go(func() { n.fetch(ctx, c.buffer, &received) })
	}
	<-ctx.Done()
	return link.Rate(float64(received.Load()) * 8 / time.Since(start).Seconds()), nil
}

// serve sends as much as possible on every connection, until ctx is done.
func serve(ctx context.Context, listener net.Listener, running *sync.WaitGroup) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		running.Go(func() {
			defer stop()
			defer conn.Close()
			for block := make([]byte, 32<<10); err == nil; {
				_, err = conn.Write(block)
			}
		})
	}
}

// fetch counts what comes, until ctx is done. A connection that fails carries nothing.
func (n *network) fetch(ctx context.Context, buffer link.Bytes, received *atomic.Int64) {
	conn, err := n.virginia.Dial(ctx, "tcp4", n.florida.At(port), lab.Congestion(congestion), buffers(buffer))
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_, _ = io.Copy(counter{received}, conn)
}

// counter counts what is written to it, until the count is no longer wanted.
type counter struct{ total *atomic.Int64 }

func (c counter) Write(data []byte) (int, error) {
	c.total.Add(int64(len(data)))
	return len(data), nil
}
