// Package traffic contains the lab's own senders and receivers: long and short TCP downloads, and
// UDP at a constant rate. Everything random follows from a seed.
package traffic

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
)

// Source serves bytes over TCP from a host. A client asks for a number of them
// in eight bytes, big-endian, and zero means without end.
type Source struct {
	host     *lab.Host
	listener net.Listener
	address  string

	mu     sync.Mutex
	open   map[net.Conn]bool // nil once closed
	served sync.WaitGroup
}

// Serve starts a source whose connections use this congestion control; empty is
// the kernel's default. It serves until Close.
func Serve(host *lab.Host, port uint16, congestion string) (*Source, error) {
	var controls []lab.Control
	if congestion != "" {
		controls = append(controls, lab.Congestion(congestion))
	}
	listener, err := host.Listen(context.Background(), "tcp4", host.At(port), controls...)
	if err != nil {
		return nil, fmt.Errorf("serve on %s: %w", host.Name(), err)
	}
	s := &Source{host: host, listener: listener, address: host.At(port), open: map[net.Conn]bool{}}
	s.served.Go(s.accept)
	return s, nil
}

// Close ends the source and its connections.
func (s *Source) Close() error {
	err := s.listener.Close()
	s.mu.Lock()
	for conn := range s.open {
		_ = conn.Close()
	}
	s.open = nil
	s.mu.Unlock()
	s.served.Wait()
	return err
}

func (s *Source) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		if !s.keep(conn) {
			_ = conn.Close()
			return
		}
		s.served.Go(func() {
			defer s.forget(conn)
			_ = serve(conn) // a client that leaves has had enough
		})
	}
}

func (s *Source) keep(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != nil {
		s.open[conn] = true
	}
	return s.open != nil
}

func (s *Source) forget(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, conn)
	_ = conn.Close()
}

func serve(conn net.Conn) error {
	var request [8]byte
	if _, err := io.ReadFull(conn, request[:]); err != nil {
		return err
	}
	left := binary.BigEndian.Uint64(request[:])
	endless := left == 0
	block := make([]byte, 64<<10)
	for endless || left > 0 {
		n := uint64(len(block))
		if !endless {
			n = min(n, left)
			left -= n
		}
		if _, err := conn.Write(block[:n]); err != nil {
			return err
		}
	}
	return nil
}

// Transfer is what became of one download.
type Transfer struct {
	Start       time.Time
	Established time.Duration // from the first SYN to the end of the handshake
	Took        time.Duration // from then to the last byte
	Size        link.Bytes
}

// Fetch downloads size bytes to a host, and counts them in received as they come; zero means without end. It ends with ctx.
func (s *Source) Fetch(ctx context.Context, to *lab.Host, size link.Bytes, received *atomic.Int64) (Transfer, error) {
	return s.fetchFrom(ctx, time.Now(), to, size, received)
}

func (s *Source) fetchFrom(ctx context.Context, start time.Time, to *lab.Host, size link.Bytes, received *atomic.Int64) (Transfer, error) {
	t := Transfer{Start: start}
	conn, err := to.Dial(ctx, "tcp4", s.address)
	if err != nil {
		return t, fmt.Errorf("fetch from %s: %w", s.host.Name(), err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	t.Established = time.Since(t.Start)
	t.Size, err = request(conn, size, received)
	t.Took = time.Since(t.Start) - t.Established
	if err != nil && ctx.Err() == nil {
		return t, fmt.Errorf("fetch from %s: %w", s.host.Name(), err)
	}
	return t, nil
}

func request(conn net.Conn, size link.Bytes, received *atomic.Int64) (link.Bytes, error) {
	if _, err := conn.Write(binary.BigEndian.AppendUint64(nil, uint64(size))); err != nil {
		return 0, err
	}
	n, err := io.Copy(&counter{total: received}, conn)
	if err == nil && link.Bytes(n) != size {
		err = errors.New("the source ended early")
	}
	return link.Bytes(n), err
}

// counter discards what is written to it and counts it.
type counter struct{ total *atomic.Int64 }

func (c *counter) Write(data []byte) (int, error) {
	c.total.Add(int64(len(data)))
	return len(data), nil
}
