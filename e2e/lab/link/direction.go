package link

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/e2e/lab/thread"
)

// Clock is the time since an instant that both directions of a link share.
type Clock func() time.Duration

// StartClock returns a monotonic clock that begins now.
func StartClock() Clock {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// batch is how many frames are taken from one end before frames that are due are delivered.
const batch = 32

// Direction moves frames from one end to the other through a Shaper. Its
// methods may be called from any goroutine.
type Direction struct {
	clock    Clock
	from, to int // non-blocking descriptors of the ends, owned by the caller
	wake     int // eventfd: the shape has changed, or it is time to stop

	mu      sync.Mutex
	shaper  *Shaper
	stopped bool
	late    Lateness
	refused int64 // frames that the far end did not take

	frame [65536 + int(EthernetFrames)]byte
}

// NewDirection joins two ends. It starts nothing; see Run.
func NewDirection(clock Clock, from, to int, shaper *Shaper) (*Direction, error) {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("make an eventfd: %w", err)
	}
	return &Direction{clock: clock, from: from, to: to, wake: wake, shaper: shaper}, nil
}

// Run carries frames until Stop. It takes a thread for itself.
func (d *Direction) Run() error {
	return thread.Do(d.run)
}

func (d *Direction) run() error {
	wakeOnTime()
	for {
		if err := d.carry(); err != nil {
			return err
		}
		deadline, timed, stopped := d.plan()
		if stopped {
			return nil
		}
		if err := d.wait(deadline, timed); err != nil {
			return err
		}
	}
}

// Stop ends Run soon. Close may be called once Run has returned.
func (d *Direction) Stop() {
	d.mu.Lock()
	d.stopped = true
	d.mu.Unlock()
	d.nudge()
}

// Close releases what NewDirection took, not the ends.
func (d *Direction) Close() error { return unix.Close(d.wake) }

// Reshape changes the shape from now on.
func (d *Direction) Reshape(change func(*Shape)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	shape := d.shaper.Shape()
	change(&shape)
	if err := shape.Validate(); err != nil {
		return err
	}
	d.shaper.Reshape(d.clock(), shape)
	d.nudge()
	return nil
}

// Shape is the present shape.
func (d *Direction) Shape() Shape {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shaper.Shape()
}

// Read tells the present state.
func (d *Direction) Read() Reading {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shaper.Read(d.clock())
}

// Lateness tells how well the emulator kept its own timetable.
func (d *Direction) Lateness() Lateness {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.late
}

func (d *Direction) nudge() {
	_, _ = unix.Write(d.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // full means already awake
}

// carry takes what has come and delivers what is due until neither is left.
func (d *Direction) carry() error {
	for {
		taken, err := d.take()
		if err != nil {
			return err
		}
		if err := d.deliver(); err != nil {
			return err
		}
		if taken < batch {
			return nil
		}
	}
}

func (d *Direction) take() (taken int, err error) {
	for taken < batch {
		n, err := unix.Read(d.from, d.frame[:])
		switch {
		case errors.Is(err, unix.EAGAIN):
			return taken, nil
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return taken, fmt.Errorf("read from link end: %w", err)
		}
		d.mu.Lock()
		d.shaper.Enter(d.clock(), d.frame[:n])
		d.mu.Unlock()
		taken++
	}
	return taken, nil
}

func (d *Direction) deliver() error {
	for {
		frame := d.due()
		if frame == nil {
			return nil
		}
		_, err := unix.Write(d.to, frame)
		for errors.Is(err, unix.EINTR) {
			_, err = unix.Write(d.to, frame)
		}
		if errors.Is(err, unix.EBADF) {
			return fmt.Errorf("write to link end: %w", err)
		}
		if err != nil { // the device is down or refuses the frame: a real cable would not notice
			d.mu.Lock()
			d.refused++
			d.mu.Unlock()
		}
	}
}

// due returns the next frame that has arrived; only Run calls Leave, so the
// frame stays valid without the lock.
func (d *Direction) due() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock()
	frame, due := d.shaper.Leave(now)
	if frame != nil {
		d.late.add(now - due)
	}
	return frame
}

func (d *Direction) plan() (deadline time.Duration, timed, stopped bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	deadline, timed = d.shaper.Deadline()
	return deadline, timed, d.stopped
}

// wait returns when a frame has come, the deadline has passed or the
// direction was nudged.
func (d *Direction) wait(deadline time.Duration, timed bool) error {
	var timeout *unix.Timespec
	if timed {
		left := unix.NsecToTimespec(int64(max(0, deadline-d.clock())))
		timeout = &left
	}
	events := []unix.PollFd{{Fd: int32(d.from), Events: unix.POLLIN}, {Fd: int32(d.wake), Events: unix.POLLIN}}
	if _, err := unix.Ppoll(events, timeout, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("wait for link end: %w", err)
	}
	if events[1].Revents != 0 {
		var count [8]byte
		_, _ = unix.Read(d.wake, count[:])
	}
	return nil
}
