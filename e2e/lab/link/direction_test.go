package link_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/e2e/lab/link"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire is a direction between two pairs of sockets, which stand in for devices
// and need no root.
type wire struct {
	t         *testing.T
	direction *link.Direction
	near, far int // where the test writes and reads
}

func newWire(t *testing.T, shape link.Shape) *wire {
	t.Helper()
	pair := func() (ours, theirs int) {
		ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = unix.Close(ends[0]), unix.Close(ends[1]) })
		return ends[0], ends[1]
	}
	near, from := pair()
	far, to := pair()
	direction, err := link.NewDirection(link.StartClock(), from, to, link.NewShaper(shape, link.BarePackets, 1))
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t, direction: direction, near: near, far: far}
	var running sync.WaitGroup
	running.Go(func() {
		if err := direction.Run(); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(func() {
		direction.Stop()
		running.Wait()
		_ = direction.Close()
	})
	return w
}

func (w *wire) send(size int) {
	w.t.Helper()
	if _, err := unix.Write(w.near, make([]byte, size)); err != nil {
		w.t.Fatal(err)
	}
}

// arrives reports whether a frame comes within a time.
func (w *wire) arrives(within time.Duration) bool {
	w.t.Helper()
	wait := unix.NsecToTimespec(int64(within))
	n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(w.far), Events: unix.POLLIN}}, &wait, nil)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Ppoll([]unix.PollFd{{Fd: int32(w.far), Events: unix.POLLIN}}, &wait, nil)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	if n == 1 {
		_, _ = unix.Read(w.far, make([]byte, 2000))
	}
	return n == 1
}

func TestDirectionNeverDeliversEarly(t *testing.T) {
	const delay = 20 * time.Millisecond
	w := newWire(t, link.Shape{Delay: delay, Rate: 12 * link.Mbit})
	for range 5 {
		start := time.Now()
		w.send(1500)
		if !w.arrives(time.Second) {
			t.Fatal("nothing arrived")
		}
		if took := time.Since(start); took < delay+time.Millisecond {
			t.Errorf("arrived after %v, before serialization and delay", took)
		}
	}
	if worst := w.direction.Lateness().Worst(); worst < 0 || w.direction.Lateness().Within(0.5) > worst {
		t.Errorf("lateness %v in the worst case, %v in the median", worst, w.direction.Lateness().Within(0.5))
	}
}

// A packet that waits for a slow clock leaves at once when the rate is raised: the thread that
// sleeps until its old time is woken.
func TestReshapeWakesTheSleeper(t *testing.T) {
	w := newWire(t, link.Shape{Rate: link.Kbit}) // 1500 bytes last 12 s
	w.send(1500)
	if w.arrives(50 * time.Millisecond) {
		t.Fatal("arrived before its time")
	}
	if err := w.direction.Reshape(func(s *link.Shape) { s.Rate = link.Gbit }); err != nil {
		t.Fatal(err)
	}
	if !w.arrives(time.Second) {
		t.Error("did not arrive at the new rate")
	}
}

func TestReshapeRefusesWhatIsWrong(t *testing.T) {
	w := newWire(t, link.Shape{})
	if err := w.direction.Reshape(func(s *link.Shape) { s.Loss = 2 }); err == nil {
		t.Error("a loss of 200 % was accepted")
	}
	if got := w.direction.Shape(); got != (link.Shape{}) {
		t.Errorf("shape %+v after a refused change", got)
	}
}
