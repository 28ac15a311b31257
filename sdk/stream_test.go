package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"
)

// Who receives a stream into something that nobody reads can be interrupted.
func TestBlockedWritesAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		out, in := io.Pipe()
		to := &leavable{ctx, in}
		go func() {
			synctest.Wait()
			cancel()
		}()
		if _, err := to.Write([]byte("nobody reads it")); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want it interrupted", err)
		}
		_ = out.Close() // the write ends
	})
}

// What is written is handed on, with how that ended.
func TestLeavableWritesAreWrites(t *testing.T) {
	out, in := io.Pipe()
	to := &leavable{t.Context(), in}
	go func() {
		if n, err := to.Write([]byte("text")); n != 4 || err != nil {
			t.Errorf("%d bytes and %v, want 4", n, err)
		}
		_ = in.Close()
	}()
	if got, err := io.ReadAll(out); string(got) != "text" || err != nil {
		t.Errorf("%q and %v", got, err)
	}
	if _, err := to.Write([]byte("more")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v, want that the pipe is closed", err)
	}
}

// Where the program chooses the place, it refuses what it gives none; elsewhere the reason is the disk's.
func TestWhyAStreamIsNotOpened(t *testing.T) {
	nothing := &receiving{options: ReceiveOptions{Stream: func(Incoming) (StreamWriter, error) { return nil, nil }}}
	if _, _, err := nothing.openStream(); !errors.Is(err, errNoWriter) || nothing.whyNotOpened(err) != "refused" {
		t.Errorf("without a writer: %v", err)
	}
	full := &receiving{options: ReceiveOptions{Into: t.TempDir()}}
	if got := full.whyNotOpened(fmt.Errorf("open: %w", unix.ENOSPC)); got != "no_room" {
		t.Errorf("on a full disk: %s", got)
	}
}
