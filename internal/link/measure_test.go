package link_test

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
)

// accepting opens a data port that accepts one connection after the other, as an agent does.
func (n neighbours) accepting(t *testing.T) (address string, ended <-chan error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan error, 16)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			raw, err := listener.Accept()
			if err != nil {
				return
			}
			_, err = link.Accept(context.Background(), raw, n.parent)
			accepted <- err
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-stopped
	})
	return listener.Addr().String(), accepted
}

// A round trip over loopback is measured, and the other end does not take it for an attack.
func TestRoundTrip(t *testing.T) {
	n := newNeighbours(t)
	address, accepted := n.accepting(t)
	contacts := link.NewContacts(&net.Dialer{}, n.child, link.AllKeep)
	for name, measure := range map[string]func() (time.Duration, error){
		"without a proof": func() (time.Duration, error) { return link.RoundTrip(t.Context(), &net.Dialer{}, address) },
		"with a proof": func() (time.Duration, error) {
			return contacts.Prove(t.Context(), address, parentID)
		},
	} {
		began := time.Now()
		rtt, err := measure()
		if err != nil || rtt <= 0 || rtt > time.Since(began) {
			t.Errorf("%s: %v, %v; it took %v", name, rtt, err, time.Since(began))
		}
		contacts.Close()
		if err := <-accepted; !link.SaidNothing(err) {
			t.Errorf("%s: the other end saw %v, want that nothing was said", name, err)
		}
	}
}

// If another is at an agent's address, nothing is measured.
func TestRoundTripOfAnother(t *testing.T) {
	n := newNeighbours(t)
	address, accepted := n.accepting(t)
	other := identity.ID{Role: identity.Agent, Name: "other"}
	contacts := link.NewContacts(&net.Dialer{}, n.child, link.AllKeep)
	if rtt, err := contacts.Prove(t.Context(), address, other); err == nil {
		t.Errorf("measured %v to one who is not there", rtt)
	}
	if err := <-accepted; err == nil || link.SaidNothing(err) {
		t.Errorf("the other end saw %v", err)
	}
}

// unmeasured dials connections of which the kernel has measured nothing.
type unmeasured struct{ listening *net.TCPListener }

func (u unmeasured) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := new(net.Dialer).DialContext(ctx, network, address)
	return unmeasuredConn{raw, u.listening}, err
}

// unmeasuredConn shows another socket: one that listens has no round trip.
type unmeasuredConn struct {
	net.Conn
	listening *net.TCPListener
}

func (c unmeasuredConn) SyscallConn() (syscall.RawConn, error) { return c.listening.SyscallConn() }

// Where the kernel has measured no round trip, as when a SYN was lost and TCP has no timestamps, it is not taken for none at all: that other
// end would be the nearest there is.
func TestRoundTripThatTheKernelHasNotMeasured(t *testing.T) {
	n := newNeighbours(t)
	address, accepted := n.accepting(t)
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	began := time.Now()
	rtt, err := link.RoundTrip(t.Context(), unmeasured{other.(*net.TCPListener)}, address)
	if err != nil || rtt <= 0 || rtt > time.Since(began) {
		t.Errorf("%v, %v; it took %v", rtt, err, time.Since(began))
	}
	<-accepted
}
