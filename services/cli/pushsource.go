package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/printable"
	"github.com/groupcast/groupcast/sdk"
)

const (
	// readPatience is how long it may take to read a directory before that is shown.
	readPatience = 2 * time.Second
	// readPause is how often it is shown on a terminal.
	readPause = 200 * time.Millisecond
)

// openChanges reads the directory of which members are to be sent what they lack; of anything else it returns nil. It does so before
// anybody joins: it may take so long that a session would expire, and receivers would be waited for in vain.
func (a *app) openChanges(ctx context.Context, p *push, dir string) (*sdk.Source, error) {
	if !p.changes {
		return nil, nil
	}
	shown := newScreen(a.stderr)
	source, err := sdk.OpenChanges(ctx, dir, sayRead(shown, dir))
	shown.end()
	if ctx.Err() != nil {
		return nil, errInterrupted
	}
	if err != nil {
		return nil, fmt.Errorf("with --changes: %w", err)
	}
	return source, nil
}

// sayRead returns what shows how much of a directory was read, if that takes long.
func sayRead(shown *screen, dir string) func(read, all uint64) {
	next, every := time.Now().Add(readPatience), linePause
	if shown.terminal != nil {
		every = readPause
	}
	return func(read, all uint64) {
		if now := time.Now(); now.After(next) {
			next = now.Add(every)
			shown.sayNow(fmt.Sprintf("reading %s, for members to compare with what they have: %s of %s", printable.Text(dir), bytesize.Short(read), bytesize.Short(all)))
		}
	}
}

// keepInput reads standard input to its end into a file, so that its size is known. Interrupted, it keeps nothing.
func keepInput(ctx context.Context, p *push) (file string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "groupcast-push-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	if p.options.Name == "" {
		p.options.Name = "stdin"
	}
	file = filepath.Join(dir, "stdin")
	to, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o644)
	if err == nil {
		_, err = io.Copy(to, &until{ctx, os.Stdin})
		err = errors.Join(err, to.Close())
	}
	if ctx.Err() != nil {
		remove()
		return "", nil, errInterrupted
	}
	if err != nil {
		remove()
		if noroom.Is(err) {
			err = fmt.Errorf("%w; TMPDIR can name another directory, and --stream keeps what members have not acknowledged alone", err)
		}
		return "", nil, fmt.Errorf("read standard input: %w", err)
	}
	return file, remove, nil
}
