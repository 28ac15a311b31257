package simnet_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"

	"github.com/groupcast/groupcast/internal/simnet"
)

// pipe is a connection from host a to host b, 10 ms apart.
type pipe struct {
	t       *testing.T
	network *simnet.Network
	a, b    *simnet.Conn
}

const latency = 10 * time.Millisecond

func connected(t *testing.T, run func(p *pipe)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(1)
		network.ShapeAll(simnet.Shape{Latency: latency})
		a, b := join(t, network)
		run(&pipe{t, network, a, b})
		_, _ = a.Close(), b.Close()
		if err := network.Conserved(); err != nil {
			t.Error(err)
		}
	})
}

func join(t testing.TB, network *simnet.Network) (a, b *simnet.Conn) {
	t.Helper()
	port, err := network.Host("b").Listen(":7000")
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	dialed, err := network.Host("a").Dial(context.Background(), "tcp", "b:7000")
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := port.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return dialed.(*simnet.Conn), accepted.(*simnet.Conn)
}

// fill writes until the connection accepts no more.
func fill(t *testing.T, conn net.Conn) (written int) {
	t.Helper()
	_ = conn.SetWriteDeadline(time.Now().Add(time.Minute))
	written, err := conn.Write(make([]byte, 1<<20))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("wrote %d bytes to a peer that does not read: %v", written, err)
	}
	_ = conn.SetWriteDeadline(time.Time{})
	return written
}

func (p *pipe) wantRead(conn net.Conn, want string) {
	p.t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		p.t.Errorf("read %q, %v, want %q", got, err, want)
	}
}

func (p *pipe) wantError(conn net.Conn, want error) {
	p.t.Helper()
	if _, err := io.Copy(io.Discard, conn); !errors.Is(err, want) {
		p.t.Errorf("read ended with %v, want %v", err, want)
	}
}

func (p *pipe) write(conn net.Conn, text string) {
	p.t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		p.t.Error(err)
	}
}

func TestConn(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		c1, c2 = join(t, simnet.New(1))
		return c1, c2, func() { _, _ = c1.Close(), c2.Close() }, nil
	})
}

func TestBytesTakeTheirTime(t *testing.T) {
	connected(t, func(p *pipe) {
		p.network.Shape("a", "b", simnet.Shape{Latency: latency, Rate: 1000})
		start := time.Now()
		p.write(p.a, "0123456789")
		p.wantRead(p.b, "0123456789")
		if took := time.Since(start); took.Round(time.Microsecond) != 2*latency {
			t.Errorf("ten bytes took %v, want %v", took, 2*latency)
		}
	})
}

func TestWriteWaitsForTheReader(t *testing.T) {
	connected(t, func(p *pipe) {
		if got := fill(t, p.a); got != simnet.DefaultSend+simnet.DefaultWindow {
			t.Errorf("buffers took %d bytes", got)
		}
		go func() { _, _ = io.CopyN(io.Discard, p.b, simnet.DefaultWindow) }()
		if _, err := p.a.Write(make([]byte, 1000)); err != nil {
			t.Error(err)
		}
	})
}

func TestHalfClose(t *testing.T) {
	connected(t, func(p *pipe) {
		p.write(p.a, "question")
		if err := p.a.CloseWrite(); err != nil {
			t.Error(err)
		}
		if got, err := io.ReadAll(p.b); err != nil || string(got) != "question" {
			t.Errorf("read %q, %v", got, err)
		}
		p.write(p.b, "answer")
		p.wantRead(p.a, "answer")
		if _, err := p.a.Write([]byte("more")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write behind the end: %v", err)
		}
	})
}

func TestCloseWithUnreadDataResets(t *testing.T) {
	connected(t, func(p *pipe) {
		p.write(p.a, "ignored")
		time.Sleep(2 * latency)
		_ = p.b.Close()
		p.wantError(p.a, syscall.ECONNRESET)
	})
}

func TestWritingToAClosedPeerIsReset(t *testing.T) {
	connected(t, func(p *pipe) {
		_ = p.b.Close()
		p.wantError(p.a, nil)
		p.write(p.a, "too late")
		time.Sleep(3 * latency)
		if _, err := p.a.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("write: %v", err)
		}
	})
}

func TestCutStallsAndHealGoesOn(t *testing.T) {
	connected(t, func(p *pipe) {
		p.write(p.a, "on the line")
		time.Sleep(latency / 2)
		p.network.Cut("a", "b")
		_ = p.b.SetReadDeadline(time.Now().Add(time.Hour))
		p.wantError(p.b, os.ErrDeadlineExceeded)
		_ = p.b.SetReadDeadline(time.Time{})
		p.network.Heal("a", "b")
		p.wantRead(p.b, "on the line")
	})
}

// Without acknowledgements a sender stops when its window is full.
func TestOneWayCutStopsTheSender(t *testing.T) {
	connected(t, func(p *pipe) {
		p.network.CutOneWay("b", "a")
		go func() { _, _ = io.Copy(io.Discard, p.b) }()
		fill(t, p.a)
		p.network.Heal("a", "b")
		_ = p.a.Close()
	})
}

func TestNarrowLetsSmallPacketsPass(t *testing.T) {
	connected(t, func(p *pipe) {
		p.network.Narrow("a", "b")
		p.write(p.a, "small")
		p.wantRead(p.b, "small")
		large := strings.Repeat("large", 1000)
		p.write(p.a, large)
		_ = p.b.SetReadDeadline(time.Now().Add(time.Hour))
		p.wantError(p.b, os.ErrDeadlineExceeded)
		_ = p.b.SetReadDeadline(time.Time{})
		p.write(p.b, large) // the other direction carries it
		p.wantRead(p.a, large)
		p.network.Heal("b", "a")
		p.wantRead(p.b, large)
	})
}

func TestKillResetsAndRefuses(t *testing.T) {
	connected(t, func(p *pipe) {
		p.network.Host("b").Kill()
		p.wantError(p.a, syscall.ECONNRESET)
		p.wantError(p.b, net.ErrClosed)
		if _, err := p.network.Host("a").Dial(p.t.Context(), "tcp", "b:7000"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial: %v", err)
		}
		p.network.Host("b").Restart()
		a, b := join(t, p.network)
		_, _ = a.Close(), b.Close()
	})
}

func TestPowerOffIsSilent(t *testing.T) {
	connected(t, func(p *pipe) {
		p.network.Host("b").PowerOff()
		p.write(p.a, "anyone there?")
		_ = p.a.SetReadDeadline(time.Now().Add(time.Hour))
		p.wantError(p.a, os.ErrDeadlineExceeded)
		_ = p.a.SetReadDeadline(time.Time{})
		start := time.Now()
		_, err := p.network.Host("a").Dial(p.t.Context(), "tcp", "b:7000")
		if !errors.Is(err, syscall.ETIMEDOUT) || time.Since(start) != simnet.ConnectTimeout {
			t.Errorf("dial after %v: %v", time.Since(start), err)
		}
		p.network.Host("b").Restart()
		p.wantError(p.a, syscall.ECONNRESET)
	})
}

func TestFrozenHostTakesWhatFits(t *testing.T) {
	connected(t, func(p *pipe) {
		p.network.Host("b").Freeze()
		start := time.Now()
		time.AfterFunc(time.Hour, p.network.Host("b").Thaw)
		fill(t, p.a)
		p.wantRead(p.b, "\x00")
		if took := time.Since(start); took.Round(time.Microsecond) != time.Hour {
			t.Errorf("a frozen host read after %v", took)
		}
	})
}

func TestCorruptFlipsOneBit(t *testing.T) {
	connected(t, func(p *pipe) {
		p.network.Corrupt("a", "b", 3)
		p.write(p.a, "aaaaaaaa")
		got := make([]byte, 8)
		_, _ = io.ReadFull(p.b, got)
		if bytes.Count(got, []byte("a")) != 7 || got[3] == 'a' {
			t.Errorf("read %q", got)
		}
	})
}

// The answer to damaged bytes does not wait for somebody who writes at the same end.
func TestWriterIsNotInTheWayOfAnAlert(t *testing.T) {
	connected(t, func(p *pipe) {
		var writing sync.Mutex
		writing.Lock()
		go func() {
			defer writing.Unlock()
			_, _ = p.b.Write(make([]byte, 16<<20)) // nobody reads it
		}()
		p.network.Corrupt("a", "b", 0)
		p.write(p.a, "a")
		_, _ = io.ReadFull(p.b, make([]byte, 1))
		writing.Lock()
	})
}

func TestResetEndsBothEnds(t *testing.T) {
	connected(t, func(p *pipe) {
		p.network.Reset("b", "a")
		p.wantError(p.a, syscall.ECONNRESET)
		p.wantError(p.b, syscall.ECONNRESET)
	})
}
