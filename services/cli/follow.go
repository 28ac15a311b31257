package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// followPause is how often a file that is followed is looked at.
const followPause = 200 * time.Millisecond

// following reads what is added to a file, and goes on with the next one when another
// takes its name, as logs are rotated.
type following struct {
	ctx  context.Context
	name string
	file *os.File
}

// follow reads a file from an offset on. If it has fewer bytes, another has taken its place
// since: that is read from its beginning.
func follow(ctx context.Context, name string, offset uint64) (*following, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && uint64(info.Size()) >= offset {
		_, err = file.Seek(int64(offset), io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &following{ctx, name, file}, nil
}

// Read waits for more until ctx is done, which is the end.
func (f *following) Read(p []byte) (int, error) {
	for {
		n, err := f.file.Read(p)
		if n > 0 || err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		next, err := f.replaced()
		if err != nil {
			return 0, err
		}
		if next {
			continue
		}
		select {
		case <-f.ctx.Done():
			return 0, io.EOF
		case <-time.After(followPause):
		}
	}
}

// replaced opens the file that has taken the name of the one that was read to its end, and
// reports whether there is one. A file that was cut is read from its beginning.
func (f *following) replaced() (bool, error) {
	own, err := f.file.Stat()
	if err != nil {
		return false, err
	}
	position, err := f.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return false, err
	}
	if own.Size() < position {
		_, err := f.file.Seek(0, io.SeekStart)
		return true, err
	}
	now, err := os.Stat(f.name)
	if err != nil || os.SameFile(now, own) {
		return false, nil // one that is gone may come back
	}
	next, err := os.Open(f.name)
	if err != nil {
		return false, fmt.Errorf("follow: %w", err)
	}
	_ = f.file.Close() // it was read
	f.file = next
	return true, nil
}
