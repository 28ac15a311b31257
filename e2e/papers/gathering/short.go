package gathering

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/groupcast/groupcast/e2e/fleet"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/sdk/gather"
)

// Short are uploads of small files, each over a data connection of its own.
type Short struct {
	Terminal string
	Count    int
	Size     link.Bytes
	// Interval is the mean time between their starts; intervals are exponential. Zero means one after another.
	Interval time.Duration
	Seed     uint64
}

// Transfers says how long short uploads took, in seconds.
type Transfers struct {
	// Established are the TCP handshakes of data connections, from the first SYN on.
	Established []float64
	// Took is the time from the client's request to the gatherer until the file is on its disk.
	Took []float64
}

// Upload makes short uploads, each at its time even if earlier ones have not ended, and returns when all have.
func (s *Site) Upload(short Short) (Transfers, error) {
	var guard sync.Mutex
	var done Transfers
	dialer := s.dialer(short.Terminal)
	dialer.Dialed = func(address string, took time.Duration) {
		guard.Lock()
		defer guard.Unlock()
		if strings.HasSuffix(address, fmt.Sprint(":", fleet.GathererDataPort)) {
			done.Established = append(done.Established, took.Seconds())
		}
	}
	client, err := s.fleet.Uploader(s.ctx, dialer, s.server, short.Terminal)
	if err != nil {
		return done, err
	}
	defer client.Close()
	if _, err := client.Clients(s.ctx); err != nil { // after this its control connection is open
		return done, err
	}
	dir, err := os.MkdirTemp("", "groupcast-short-")
	if err != nil {
		return done, err
	}
	defer os.RemoveAll(dir)
	errs := short.each(s.ctx, func(n int) error {
		start := time.Now()
		if err := short.one(s.ctx, client, dir, n); err != nil {
			return err
		}
		guard.Lock()
		defer guard.Unlock()
		done.Took = append(done.Took, time.Since(start).Seconds())
		return nil
	})
	return done, errs
}

// each calls upload for all uploads at their times.
func (short Short) each(ctx context.Context, upload func(n int) error) error {
	random := rand.New(rand.NewPCG(short.Seed, 0))
	errs := make([]error, short.Count)
	var group sync.WaitGroup
	for n := range short.Count {
		if short.Interval == 0 {
			errs[n] = upload(n)
			continue
		}
		wait(ctx, time.Duration(random.ExpFloat64()*float64(short.Interval)))
		group.Go(func() { errs[n] = upload(n) })
	}
	group.Wait()
	return errors.Join(errs...)
}

func wait(ctx context.Context, span time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(span):
	}
}

// one uploads a file that the gatherer does not have yet.
func (short Short) one(ctx context.Context, client *gather.Client, dir string, n int) error {
	file := filepath.Join(dir, fmt.Sprintf("short-%d-%d", short.Interval, n))
	content := make([]byte, short.Size)
	content[0] = byte(n)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return err
	}
	_, err := client.Upload(ctx, file, gather.FileOptions{})
	return err
}
