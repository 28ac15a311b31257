package link_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/internal/link"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// protocol is what the opening of a link negotiates.
const protocol = "groupcast-relay/1"

// dripped is a connection to which a byte is written each second.
type dripped struct{ net.Conn }

func (d dripped) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var one int
		one, err = d.Conn.Write(p[n : n+1])
		n += one
		time.Sleep(time.Second)
	}
	return n, err
}

// C6, C10: who sends one byte a second while a link is opened is given up, by whichever end: in the handshake, and when it has proven who it is.
func TestDrippedOpeningIsBrokenOff(t *testing.T) {
	for _, proven := range []bool{false, true} {
		t.Run(fmt.Sprintf("child proven=%t", proven), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newSimulated(t).wantChildBrokenOff(proven) })
		})
		t.Run(fmt.Sprintf("parent proven=%t", proven), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newSimulated(t).wantParentBrokenOff(proven) })
		})
	}
}

// wantChildBrokenOff has a child drip, and checks what the parent does.
func (s *simulated) wantChildBrokenOff(proven bool) {
	s.Helper()
	listener := s.listen()
	defer listener.Close()
	raw, err := s.net.Host("child").Dial(s.Context(), "tcp", "parent:1")
	if err != nil {
		s.Fatal(err)
	}
	defer raw.Close()
	var dripping sync.WaitGroup
	dripping.Go(func() {
		hello := wire.Hello{Stripes: 1, Capability: make([]byte, 100)}.Append(nil)
		s.drip(raw, proven, hello, func(conn net.Conn) *tls.Conn { return tls.Client(conn, s.child.Dial(parentID, protocol)) })
	})
	accepted, err := listener.Accept()
	if err != nil {
		s.Fatal(err)
	}
	s.wantSoon(func() error {
		_, err := link.Accept(s.Context(), accepted, s.parent)
		return err
	})
	dripping.Wait()
}

// wantParentBrokenOff has a parent drip, and checks what the child does.
func (s *simulated) wantParentBrokenOff(proven bool) {
	s.Helper()
	listener := s.listen()
	defer listener.Close()
	var dripping sync.WaitGroup
	dripping.Go(func() {
		raw, err := listener.Accept()
		if err != nil {
			s.Error(err)
			return
		}
		defer raw.Close()
		s.drip(raw, proven, wire.Welcome{TreeVersion: 1}.Append(nil), func(conn net.Conn) *tls.Conn { return tls.Server(conn, s.parent.Listen(protocol)) })
	})
	s.wantSoon(func() error {
		_, _, err := link.Dial(s.Context(), s, "parent:1", s.child, parentID, wire.Hello{Stripes: 1})
		return err
	})
	dripping.Wait()
}

func (s *simulated) listen() net.Listener {
	s.Helper()
	listener, err := s.net.Host("parent").Listen("parent:1")
	if err != nil {
		s.Fatal(err)
	}
	return listener
}

// drip drips the handshake or, after that, a message, until the connection is closed.
func (s *simulated) drip(raw net.Conn, proven bool, message []byte, secure func(net.Conn) *tls.Conn) {
	s.Helper()
	if !proven {
		if secure(dripped{raw}).Handshake() == nil {
			s.Error("the handshake was waited for")
		}
		return
	}
	conn := secure(raw)
	if err := conn.Handshake(); err != nil {
		s.Error(err)
		return
	}
	if _, err := (dripped{conn}).Write(message); err == nil {
		s.Error("all of the message was waited for")
	}
}

// wantSoon checks that something fails, in the time that the handshake and what is asked after it have.
func (s *simulated) wantSoon(open func() error) {
	s.Helper()
	const openTime = 5 * time.Second
	begun := time.Now()
	err := open()
	if took := time.Since(begun); err == nil || took < openTime || took > 2*openTime || errors.Is(err, net.ErrClosed) {
		s.Errorf("after %v: %v", took, err)
	}
}
