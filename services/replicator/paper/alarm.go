package paper

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// alarm tells when a time has come, within what the kernel's timers can do: an ARTP is less
// than the millisecond that a Go timer is rounded up to while a program waits for packets. The
// paper's authors patched their kernel for it (§III-E).
type alarm struct {
	file  *os.File // of a timer
	rung  chan struct{}
	set   time.Time
	ended sync.WaitGroup
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	a := &alarm{file: os.NewFile(uintptr(fd), "timer"), rung: make(chan struct{}, 1)}
	a.ended.Go(a.run)
	return a, nil
}

func (a *alarm) run() {
	times := make([]byte, 8)
	for {
		if _, err := a.file.Read(times); err != nil {
			return
		}
		select {
		case a.rung <- struct{}{}:
		default:
		}
	}
}

// at has the alarm ring at a time; zero is never. It may ring before, for an earlier one that
// it was set to: deadlines move away with every packet, and each setting is a system call.
func (a *alarm) at(when time.Time) error {
	if when.IsZero() || !a.set.IsZero() && !when.Before(a.set) {
		return nil
	}
	a.set = when
	value := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(time.Until(when), 1)))}
	raw, err := a.file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.TimerfdSettime(int(fd), 0, &value, nil) }); err != nil {
		return err
	}
	return failed
}

func (a *alarm) close() {
	_ = a.file.Close()
	a.ended.Wait()
}
