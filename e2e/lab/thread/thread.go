// Package thread runs functions on operating-system threads of their own.
//
// A thread that has entered a namespace or has got real-time priority must never
// be reused by the Go runtime: it ends with the function that changed it.
package thread

import (
	"errors"
	"runtime"

	"golang.org/x/sys/unix"
)

// Do runs f on a thread of its own and waits for it.
func Do(f func() error) error {
	err := errors.New("the function left its thread without returning")
	done := make(chan struct{})
	go own(func() {
		defer close(done)
		err = f()
	})
	<-done
	return err
}

// own runs f on this goroutine's thread, locked and never unlocked, so that the runtime destroys
// the thread. The main thread cannot be destroyed, and speaks for the whole process in /proc, so it
// is held back while another thread is found.
func own(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return
	}
	taken := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		close(taken)
		f()
	}()
	<-taken
	runtime.UnlockOSThread()
}
