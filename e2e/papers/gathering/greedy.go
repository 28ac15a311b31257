package gathering

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/groupcast/groupcast/sdk/gather"
)

// ahead is how many bytes of a stream are given before earlier ones are sent.
const ahead = 16 << 20

// endless is a stream that always has more, but gives only a little more than was sent, as what is not sent yet has to be kept.
type endless struct {
	ctx   context.Context
	mu    sync.Mutex
	given uint64
	sent  uint64
	more  chan struct{}
}

// greedy uploads without end.
func greedy(ctx context.Context, client *gather.Client) error {
	e := &endless{ctx: ctx, more: make(chan struct{}, 1)}
	open := func(uint64) (io.Reader, error) { return e, nil }
	_, err := client.UploadStream(ctx, open, gather.StreamOptions{Path: "stream", Progress: e.progress})
	return err
}

func (e *endless) progress(p gather.Progress) {
	e.mu.Lock()
	e.sent = p.Sent
	e.mu.Unlock()
	select {
	case e.more <- struct{}{}:
	default: // it will look anyway
	}
}

func (e *endless) Read(p []byte) (int, error) {
	for {
		e.mu.Lock()
		room := int(max(0, int64(e.sent)+ahead-int64(e.given)))
		n := min(len(p), room)
		e.given += uint64(n)
		e.mu.Unlock()
		if n > 0 {
			clear(p[:n])
			return n, nil
		}
		select {
		case <-e.more:
		case <-e.ctx.Done():
			return 0, e.ctx.Err()
		}
	}
}

// camera is a stream without end that has a picture of so many bytes, so often.
type camera struct {
	ctx     context.Context
	ticker  *time.Ticker
	picture int
	left    int // of the latest
}

// record uploads what a camera has.
func record(ctx context.Context, client *gather.Client, picture int, every time.Duration) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	open := func(uint64) (io.Reader, error) { return &camera{ctx: ctx, ticker: ticker, picture: picture}, nil }
	_, err := client.UploadStream(ctx, open, gather.StreamOptions{Path: "pictures"})
	return err
}

func (c *camera) Read(p []byte) (n int, err error) {
	if c.left == 0 {
		select {
		case <-c.ctx.Done():
			return 0, c.ctx.Err()
		case <-c.ticker.C:
			c.left = c.picture
		}
	}
	n = min(len(p), c.left)
	clear(p[:n])
	c.left -= n
	return n, nil
}
