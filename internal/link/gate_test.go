package link

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// After a signal a socket may still take something, and then nothing announces that: so only a full socket is waited for.
func TestSignalsAreNotWaitedFor(t *testing.T) {
	for _, last := range []error{nil, unix.EAGAIN, unix.EPIPE} {
		answers := []error{unix.EINTR, unix.EINTR, last}
		n, err := uninterrupted(func() (int, error) {
			answer := answers[0]
			answers = answers[1:]
			return len(answers), answer
		})
		if n != 0 || !errors.Is(err, last) || len(answers) > 0 {
			t.Errorf("%d, %v with %d answers left, want %v", n, err, len(answers), last)
		}
		if waits := err != nil && retried(&err); waits != errors.Is(last, unix.EAGAIN) {
			t.Errorf("after %v it waits: %v", last, waits)
		}
	}
	if err := error(unix.EINTR); retried(&err) {
		t.Error("it waits after a signal")
	}
}
