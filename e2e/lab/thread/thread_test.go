package thread_test

import (
	"errors"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/e2e/lab/thread"
)

func TestDoNeverRunsOnTheMainThread(t *testing.T) {
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			_ = thread.Do(func() error {
				if unix.Gettid() == unix.Getpid() {
					t.Error("on the main thread")
				}
				return nil
			})
		})
	}
	group.Wait()
}

func TestDoReturnsTheError(t *testing.T) {
	want := errors.New("told")
	if err := thread.Do(func() error { return want }); !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

func TestDoSurvivesAFunctionThatLeaves(t *testing.T) {
	if err := thread.Do(func() error { runtime.Goexit(); return nil }); err == nil {
		t.Error("no error of a function that never returned")
	}
}
