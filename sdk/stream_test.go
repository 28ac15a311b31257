package sdk

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
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
