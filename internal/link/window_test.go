package link

import (
	"context"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// dialed returns both ends of a connection to a listener whose first windows are bounded.
func dialed(t *testing.T, first int) (near, far *net.TCPConn) {
	t.Helper()
	var plain net.ListenConfig
	plain.SetMultipathTCP(false)
	listener, err := plain.Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := SetFirstWindow(listener, first); err != nil {
		t.Fatal(err)
	}
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, 1448) }) // as on a network
	}}
	dialed, err := dialer.Dial("tcp4", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialed.Close() })
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close() })
	return dialed.(*net.TCPConn), accepted.(*net.TCPConn)
}

func infoOf(t *testing.T, socket *net.TCPConn) *unix.TCPInfo {
	t.Helper()
	info := (&Conn{raw: socket}).Info()
	if info == nil {
		t.Fatal("no TCP_INFO")
	}
	return info
}

// "Control is on the accept path too, so that the first window of a new connection is already
// right" (design). A small first window does not bound the windows after it.
func TestFirstWindowIsSmallAndCanGrow(t *testing.T) {
	dialed, accepted := dialed(t, 8<<10)
	if shown := infoOf(t, dialed).Snd_wnd; shown < 4<<10 || shown > 8<<10 {
		t.Errorf("the first window is %d bytes: want at most %d", shown, 8<<10)
	}
	conn := &Conn{raw: accepted}
	for _, bytes := range []int{100 << 10, largestHeld, 5000, 60 << 10} {
		if err := conn.SetWindow(bytes); err != nil {
			t.Fatal(err)
		}
		if clamp := option(t, conn, unix.IPPROTO_TCP, unix.TCP_WINDOW_CLAMP); clamp != bytes {
			t.Errorf("a window of %d bytes is clamped to %d", bytes, clamp)
		}
		if buffer := option(t, conn, unix.SOL_SOCKET, unix.SO_RCVBUF); buffer < 2*bytes {
			t.Errorf("a window of %d bytes has a buffer of %d", bytes, buffer)
		}
		if lock := option(t, conn, unix.SOL_SOCKET, unix.SO_BUF_LOCK); lock != locked {
			t.Errorf("a window of %d bytes: the kernel may enlarge the buffer, and the window with it", bytes)
		}
	}
	if err := conn.SetWindow(8 << 20); err != nil {
		t.Fatal(err)
	}
	if lock := option(t, conn, unix.SOL_SOCKET, unix.SO_BUF_LOCK); lock != unlocked {
		t.Error("the kernel may not enlarge the buffer of a large window")
	}
}

func option(t *testing.T, c *Conn, level, name int) (value int) {
	t.Helper()
	err := c.control(func(fd int) (err error) {
		value, err = unix.GetsockoptInt(fd, level, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return value
}
