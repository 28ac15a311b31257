package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
)

// extend adds the file to the lasting stream, which the first file begins.
func (m *member) extend(ctx context.Context) error {
	state, err := os.Stat(m.file)
	if err != nil {
		return err
	}
	if !m.stream.add(state.Size()) {
		return nil
	}
	options := m.options
	options.Name = m.session.Member().Name
	m.note(func(t *tally) { t.running++ })
	if _, err := m.session.SendStream(ctx, m.stream, options); err != nil {
		return fmt.Errorf("send a stream: %w", err)
	}
	return nil
}

// backlog is a reader of as many bytes as were added to it; it waits for more.
type backlog struct {
	mu    sync.Mutex
	more  *sync.Cond
	begun bool
	left  int64
}

func newBacklog() *backlog {
	b := &backlog{}
	b.more = sync.NewCond(&b.mu)
	return b
}

// add reports whether these bytes are the first.
func (b *backlog) add(bytes int64) (first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first = !b.begun
	b.begun = true
	b.left += bytes
	b.more.Signal()
	return first
}

var _ io.Reader = (*backlog)(nil)

// Read waits for bytes, and returns zeros. It never ends.
func (b *backlog) Read(to []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.left == 0 {
		b.more.Wait()
	}
	n := int(min(int64(len(to)), b.left))
	clear(to[:n])
	b.left -= int64(n)
	return n, nil
}
