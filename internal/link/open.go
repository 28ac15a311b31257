package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// openTime is how long the opening of a link may take.
const openTime = 5 * time.Second

// drained is how much at most is read of who is refused: a few frames that came with the hello.
const drained = 4 << 10

// protocol is what the opening negotiates, so that no other service is mistaken for a relay.
const protocol = "groupcast-relay/1"

var errNotTLS = errors.New("not a TLS connection")

// Dialer opens a connection. A *net.Dialer is one.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Dial opens a link to a peer of a known identity.
func Dial(ctx context.Context, dialer Dialer, address string, security identity.TLS, peer identity.ID, hello wire.Hello) (*Conn, wire.Welcome, error) {
	return Ask(ctx, dialer, address, security, peer, hello, Answer{})
}

// Ask opens a link to a parent, and tells it at once what it may send. It begins a round trip earlier than by what a
// Taking says first.
func Ask(ctx context.Context, dialer Dialer, address string, security identity.TLS, peer identity.ID, hello wire.Hello, first Answer) (*Conn, wire.Welcome, error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	contact, err := Connect(ctx, dialer, address, security, peer)
	if err != nil {
		return nil, wire.Welcome{}, err
	}
	return contact.Ask(ctx, hello, first)
}

// Contact is a connection to a peer that has proven who it is, and was asked for nothing yet. The peer closes it if that
// takes longer than the opening of a link may.
type Contact struct {
	name   string
	raw    net.Conn
	held   *gate
	secure *tls.Conn
}

// Connect connects to a peer of a known identity, which is to be asked for something soon.
func Connect(ctx context.Context, dialer Dialer, address string, security identity.TLS, peer identity.ID) (*Contact, error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	raw, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", peer, err)
	}
	held := &gate{Conn: raw}
	c := &Contact{fmt.Sprintf("%s at %s", peer, address), raw, held, tls.Client(held, security.Dial(peer, protocol))}
	defer context.AfterFunc(ctx, func() { raw.SetDeadline(past) })()
	if err := c.secure.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, fmt.Errorf("open link to %s: %w", c.name, err)
	}
	return c, nil
}

// Close gives it up.
func (c *Contact) Close() { c.raw.Close() }

// Ask opens a link over it, as the function does. If that fails, it is closed.
func (c *Contact) Ask(ctx context.Context, hello wire.Hello, first Answer) (*Conn, wire.Welcome, error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	conn, welcome, err := c.greet(ctx, hello, first)
	if err != nil {
		c.raw.Close()
		return nil, wire.Welcome{}, fmt.Errorf("open link to %s: %w", c.name, err)
	}
	return conn, welcome, nil
}

func (c *Contact) greet(ctx context.Context, hello wire.Hello, first Answer) (*Conn, wire.Welcome, error) {
	defer context.AfterFunc(ctx, func() { c.raw.SetDeadline(past) })()
	if _, err := c.secure.Write(hello.Append(nil)); err != nil {
		return nil, wire.Welcome{}, fmt.Errorf("send hello: %w", err)
	}
	if frames := first.since(Answer{}); len(frames) > 0 {
		to := net.Conn(c.secure)
		if hello.Plaintext {
			to = c.raw
		}
		if _, err := to.Write(frames); err != nil {
			return nil, wire.Welcome{}, fmt.Errorf("send the first answer: %w", err)
		}
	}
	welcome, err := wire.ReadWelcome(c.secure)
	if err != nil {
		return nil, wire.Welcome{}, err
	}
	conn := established(c.raw, c.held, c.secure, hello.Plaintext)
	conn.told = first
	return conn, welcome, nil
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

// Refuse says why the link is not opened, and closes it. The other has time to close first: a connection that is
// closed with something unread in it takes back what was said.
func (a *Asked) Refuse(reason wire.Reason, text string) {
	defer a.raw.Close()
	a.raw.SetDeadline(time.Now().Add(heartbeat))
	// If that does not reach the other, it finds the connection closed.
	if _, err := a.secure.Write(wire.AppendBye(nil, reason, text, 0, 0)); err == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(a.raw, drained))
	}
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
