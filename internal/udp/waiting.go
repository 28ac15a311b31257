package udp

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// waiting tells Go's poller that something has come, but only when somebody waits for that. A socket that the poller has
// itself wakes it with each datagram, both when it comes and when it has been sent, whoever waits. Where
// datagrams come or go one at a time, that costs more than to move them.
//
// So the socket is in an epoll of its own, and that is what the poller has. A timer is in it, too: one of Go's would
// wake a second thread each time.
type waiting struct {
	file    *os.File        // the epoll
	raw     syscall.RawConn // of file
	epoll   int
	timer   int
	isArmed bool // a datagram wakes the poller
}

func newWaiting(descriptor int) (w waiting, err error) {
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return w, fmt.Errorf("make an epoll: %w", err)
	}
	if w.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return w, errors.Join(fmt.Errorf("make a timer: %w", err), unix.Close(w.epoll))
	}
	err = unix.SetNonblock(w.epoll, true) // which tells package os that it can be waited for
	w.file = os.NewFile(uintptr(w.epoll), "epoll")
	if err == nil {
		w.raw, err = w.file.SyscallConn()
	}
	if err == nil {
		err = w.file.SetReadDeadline(time.Time{}) // fails if the poller does not have it
	}
	if err == nil {
		err = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, descriptor, &unix.EpollEvent{})
	}
	if err == nil {
		err = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, w.timer, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET})
	}
	if err != nil {
		return w, errors.Join(fmt.Errorf("watch a socket: %w", err), w.close())
	}
	return w, nil
}

// close returns when nobody waits any more.
func (w *waiting) close() error { return errors.Join(w.file.Close(), unix.Close(w.timer)) }

// read calls a function until it has taken something, or failed otherwise than by EAGAIN, and waits for datagrams in
// between. It lets some time pass first.
func (w *waiting) read(descriptor int, rest time.Duration, take func() error) error {
	var failed error
	err := w.raw.Read(func(uintptr) bool {
		if rest > 0 {
			failed = w.alarm(rest)
			rest = 0
			return failed != nil
		}
		if failed = w.arm(descriptor, false); failed != nil {
			return true
		}
		if failed = take(); !errors.Is(failed, unix.EAGAIN) {
			return true
		}
		if failed = w.arm(descriptor, true); failed != nil {
			return true
		}
		// What has come meanwhile may wake nobody: the epoll, which nobody asks what is ready, has it in its list already.
		failed = take()
		return !errors.Is(failed, unix.EAGAIN)
	})
	if err != nil {
		return err
	}
	return failed
}

// arm says whether a datagram wakes the poller.
func (w *waiting) arm(descriptor int, on bool) error {
	if w.isArmed == on {
		return nil
	}
	event := unix.EpollEvent{}
	if on {
		event.Events = unix.EPOLLIN
	}
	if err := unix.EpollCtl(w.epoll, unix.EPOLL_CTL_MOD, descriptor, &event); err != nil {
		return fmt.Errorf("ask for datagrams: %w", err)
	}
	w.isArmed = on
	return nil
}

// alarm wakes the poller after some time. It is called often: see incoming.read for why Go's scheduler is not told.
func (w *waiting) alarm(after time.Duration) error {
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(after.Nanoseconds())}
	if _, _, failed := unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, uintptr(w.timer), 0, uintptr(unsafe.Pointer(&at)), 0, 0, 0); failed != 0 {
		return fmt.Errorf("set a timer: %w", failed)
	}
	return nil
}
