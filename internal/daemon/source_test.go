package daemon

import (
	"errors"
	"io"
	"net"
	"testing"
)

// One source cannot have all connections: those beyond its share are closed, and when it has closed some it can have new ones.
func TestSourceShare(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limited := newSourceListener(inner, 2)
	defer limited.Close()
	accepted := make(chan net.Conn, 10)
	go func() {
		for {
			connection, err := limited.Accept()
			if err != nil {
				return
			}
			accepted <- connection
		}
	}()
	dial := func(from string) net.Conn {
		t.Helper()
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		connection, err := dialer.DialContext(t.Context(), "tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { connection.Close() })
		return connection
	}
	dial("127.0.0.2")
	first := <-accepted
	dial("127.0.0.2")
	<-accepted
	if _, err := dial("127.0.0.2").Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a third connection of one source: %v, want it closed", err)
	}
	dial("127.0.0.3")
	<-accepted // another source is not affected
	first.Close()
	first.Close() // and it is counted once
	dial("127.0.0.2")
	<-accepted
	if _, err := dial("127.0.0.2").Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("one more after one was closed twice: %v, want it closed", err)
	}
}
