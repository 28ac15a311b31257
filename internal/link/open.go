package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// openTime is how long the opening of a link may take.
const openTime = 5 * time.Second

// protocol is what the opening negotiates, so that no other service is mistaken for a relay.
const protocol = "groupcast-relay/1"

var errNotTLS = errors.New("not a TLS connection")

// Dialer opens a connection. A *net.Dialer is one.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Dial opens a link to a peer of a known identity.
func Dial(ctx context.Context, dialer Dialer, address string, security identity.TLS, peer identity.ID, hello wire.Hello) (*Conn, wire.Welcome, error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	raw, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, wire.Welcome{}, fmt.Errorf("dial %s: %w", peer, err)
	}
	c, welcome, err := greet(ctx, raw, security.Dial(peer, protocol), hello)
	if err != nil {
		raw.Close()
		return nil, wire.Welcome{}, fmt.Errorf("open link to %s at %s: %w", peer, address, err)
	}
	return c, welcome, nil
}

func greet(ctx context.Context, raw net.Conn, security *tls.Config, hello wire.Hello) (*Conn, wire.Welcome, error) {
	defer context.AfterFunc(ctx, func() { raw.SetDeadline(past) })()
	held := &gate{Conn: raw}
	secure := tls.Client(held, security)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, wire.Welcome{}, err
	}
	if _, err := secure.Write(hello.Append(nil)); err != nil {
		return nil, wire.Welcome{}, fmt.Errorf("send hello: %w", err)
	}
	welcome, err := wire.ReadWelcome(secure)
	if err != nil {
		return nil, wire.Welcome{}, err
	}
	return established(raw, held, secure, hello.Plaintext), welcome, nil
}

// Asked is a link that a neighbour asks for. It is to be welcomed or refused.
type Asked struct {
	wire.Hello
	Peer  identity.Peer
	Began time.Time // when its connection was accepted

	raw    net.Conn
	held   *gate
	secure *tls.Conn
}

// Accept takes a connection, and finds out who asks for what. The connection is
// closed if that fails.
func Accept(ctx context.Context, raw net.Conn, security identity.TLS) (*Asked, error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	asked, err := listen(ctx, raw, security)
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("accept link from %s: %w", raw.RemoteAddr(), err)
	}
	return asked, nil
}

func listen(ctx context.Context, raw net.Conn, security identity.TLS) (*Asked, error) {
	defer context.AfterFunc(ctx, func() { raw.SetDeadline(past) })()
	began, held := time.Now(), &gate{Conn: raw}
	secure := tls.Server(held, security.Listen(protocol))
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	hello, err := wire.ReadHello(secure)
	if err != nil {
		return nil, err
	}
	peer, known := identity.PeerOf(secure.ConnectionState(), security.TrustDomain)
	if !known {
		return nil, identity.ErrForeign
	}
	return &Asked{Hello: hello, Peer: peer, Began: began, raw: raw, held: held, secure: secure}, nil
}

// Welcome opens the link.
func (a *Asked) Welcome(welcome wire.Welcome) (*Conn, error) {
	a.raw.SetDeadline(time.Now().Add(openTime))
	if _, err := a.secure.Write(welcome.Append(nil)); err != nil {
		a.raw.Close()
		return nil, fmt.Errorf("welcome %s: %w", a.Peer.ID, err)
	}
	return established(a.raw, a.held, a.secure, a.Plaintext), nil
}

// Refuse says why the link is not opened, and closes it.
func (a *Asked) Refuse(reason wire.Reason, text string) {
	a.raw.SetDeadline(time.Now().Add(openTime))
	// If that does not reach the other, it finds the connection closed.
	_, _ = a.secure.Write(wire.AppendBye(nil, reason, text, 0, 0))
	a.raw.Close()
}

// past is a deadline that has passed: it ends what waits.
var past = time.Unix(1, 0)

// established returns a link whose opening is over.
func established(raw net.Conn, held *gate, secure *tls.Conn, plaintext bool) *Conn {
	raw.SetDeadline(time.Time{})
	if plaintext {
		return &Conn{raw: raw, data: raw, gate: held}
	}
	held.open = true
	return &Conn{raw: raw, data: secure, gate: held}
}
