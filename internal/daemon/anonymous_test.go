package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/credentials"
)

// shown is a handshake in which the peer has shown so many certificates.
type shown struct {
	credentials.TransportCredentials
	certificates int
}

func (s *shown) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return raw, credentials.TLSInfo{State: tls.ConnectionState{PeerCertificates: make([]*x509.Certificate, s.certificates)}}, nil
}

// from is a connection from an address.
type from struct {
	net.Conn
	address string
}

func (f from) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(f.address))
}

// A caller without a certificate has few connections, each for a while; one with a certificate has as many as its address may have, for
// as long as it likes.
func TestAnonymousConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &shown{}
		security := newAnonymous(inner, 2)
		open := func(address string, certificates int) (connection, peer net.Conn, err error) {
			inner.certificates = certificates
			near, far := net.Pipe()
			connection, _, err = security.ServerHandshake(from{near, address})
			return connection, far, err
		}
		isOpen := func(peer net.Conn) bool {
			if peer.SetReadDeadline(time.Now()) != nil { // as a pipe with a closed end does
				return false
			}
			_, err := peer.Read(make([]byte, 1))
			var late net.Error
			return errors.As(err, &late) && late.Timeout()
		}
		first, firstPeer, err := open("10.0.0.1:1", 0)
		if err != nil {
			t.Fatal(err)
		}
		second, secondPeer, err := open("10.0.0.1:2", 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, peer, err := open("10.0.0.1:3", 0); !errors.Is(err, errAnonymous) || isOpen(peer) {
			t.Errorf("a third without a certificate: %v, want it closed", err)
		}
		other, _, err := open("10.0.0.2:1", 0)
		if err != nil {
			t.Errorf("one of another address: %v", err)
		}
		proven, provenPeer, err := open("10.0.0.1:4", 1)
		if err != nil {
			t.Fatalf("one with a certificate: %v", err)
		}
		first.Close()
		first.Close() // it is counted once
		if _, _, err = open("10.0.0.1:5", 0); err != nil {
			t.Errorf("one more after one was closed: %v", err)
		}
		if _, _, err = open("10.0.0.1:6", 0); !errors.Is(err, errAnonymous) {
			t.Errorf("one more after one was closed twice: %v, want it closed", err)
		}
		time.Sleep(anonymousTime - time.Second) // simulated time
		if !isOpen(secondPeer) || isOpen(firstPeer) {
			t.Error("it is ended before its time")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if isOpen(secondPeer) {
			t.Errorf("it is open after %v", anonymousTime)
		}
		if !isOpen(provenPeer) {
			t.Error("one with a certificate is ended as if it had none")
		}
		if _, _, err = open("10.0.0.1:7", 0); err != nil {
			t.Errorf("one more after others had their time: %v", err)
		}
		for _, connection := range []net.Conn{second, other, proven} {
			connection.Close()
		}
	})
}
