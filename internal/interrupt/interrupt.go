// Package interrupt ends a process in order when it is told to.
package interrupt

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Context returns a context that is done once the process is told to end: by an interrupt (^C), SIGTERM, or
// SIGHUP, which comes when a terminal or its connection is closed. Under nohup, which ignores that, it stays ignored.
func Context() (ctx context.Context, stop context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signal.NotifyContext(context.Background(), signals...)
}
