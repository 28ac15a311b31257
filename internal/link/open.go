package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// openTime is how long the opening of a link may take.
const openTime = 5 * time.Second

// drained is how much is read, at most, of what a refused peer sent: a few frames that came with the hello.
const drained = 4 << 10

// protocol is what the opening negotiates, so that a relay is not confused with another service.
const protocol = "groupcast-relay/1"

var (
	errNotTLS = errors.New("not a TLS connection")
	errSilent = errors.New("nothing was asked for")
)

// Dialer opens a connection. A *net.Dialer is one.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Dial opens a link to a peer of a known identity.
func Dial(ctx context.Context, dialer Dialer, address string, security identity.TLS, peer identity.ID, hello wire.Hello) (*Conn, wire.Welcome, error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	contact, err := connect(ctx, dialer, place{peer, address}, security)
	if err != nil {
		return nil, wire.Welcome{}, err
	}
	return contact.Ask(ctx, hello, Answer{})
}

// Contact is a connection to a peer that has proven who it is, and was not asked for anything yet. The peer closes it if that
// takes too long.
type Contact struct {
	place     place
	roundTrip time.Duration // measured when the connection was made
	made      time.Time
	keeper    *Contacts // nil if it was made for a link
	expiry    *time.Timer
	raw       net.Conn
	held      *gate
	secure    *tls.Conn
}

// connect connects to a peer.
func connect(ctx context.Context, dialer Dialer, to place, security identity.TLS) (*Contact, error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	raw, roundTrip, err := dial(ctx, dialer, to.address)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", to.peer, err)
	}
	held := &gate{Conn: raw}
	c := &Contact{place: to, roundTrip: roundTrip, made: time.Now(), raw: raw, held: held, secure: tls.Client(held, security.Dial(to.peer, protocol))}
	defer context.AfterFunc(ctx, func() { raw.SetDeadline(past) })()
	if err := c.secure.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, fmt.Errorf("open link to %s: %w", to, err)
	}
	return c, nil
}

// Close closes the connection.
func (c *Contact) Close() { c.raw.Close() }

// Ask opens a link over the connection, and tells the peer at once what it may send: bytes come a round trip earlier than if
// Taking said so first. If that fails, the connection is closed. A contact that was kept may have broken meanwhile: then another
// connection is made.
func (c *Contact) Ask(ctx context.Context, hello wire.Hello, first Answer) (*Conn, wire.Welcome, error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	conn, welcome, err := c.ask(ctx, hello, first)
	var refused *wire.Refusal
	if err == nil || c.keeper == nil || errors.As(err, &refused) || ctx.Err() != nil {
		return conn, welcome, err
	}
	again, err := connect(ctx, c.keeper.dialer, c.place, c.keeper.security)
	if err != nil {
		return nil, wire.Welcome{}, err
	}
	return again.ask(ctx, hello, first)
}

func (c *Contact) ask(ctx context.Context, hello wire.Hello, first Answer) (*Conn, wire.Welcome, error) {
	conn, welcome, err := c.greet(ctx, hello, first)
	if err != nil {
		c.raw.Close()
		return nil, wire.Welcome{}, fmt.Errorf("open link to %s: %w", c.place, err)
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

// Asked is a link that a neighbour asks for. The caller has to welcome or refuse it.
type Asked struct {
	wire.Hello
	Peer  identity.Peer
	Began time.Time // when its connection was accepted

	raw    net.Conn
	held   *gate
	secure *tls.Conn
}

// Accept finds out who asks for what over a connection. If that fails, it closes the connection.
func Accept(ctx context.Context, raw net.Conn, security identity.TLS) (*Asked, error) {
	asked, err := meet(ctx, raw, security)
	if err != nil {
		return nil, err
	}
	return asked.hear(ctx, openTime)
}

// meet finds out who has connected. If that fails, it closes the connection.
func meet(ctx context.Context, raw net.Conn, security identity.TLS) (*Asked, error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	defer context.AfterFunc(ctx, func() { raw.SetDeadline(past) })()
	held := &gate{Conn: raw}
	asked := &Asked{Began: time.Now(), raw: raw, held: held, secure: tls.Server(held, security.Listen(protocol))}
	err := asked.secure.HandshakeContext(ctx)
	if err == nil {
		var known bool
		if asked.Peer, known = identity.PeerOf(asked.secure.ConnectionState(), security.TrustDomain); !known {
			err = identity.ErrForeign
		}
	}
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("accept link from %s: %w", raw.RemoteAddr(), err)
	}
	return asked, nil
}

// hear waits for what the peer asks for. If nothing comes, it closes the connection.
func (a *Asked) hear(ctx context.Context, patience time.Duration) (_ *Asked, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer context.AfterFunc(ctx, func() { a.raw.SetDeadline(past) })()
	if a.Hello, err = wire.ReadHello(a.secure); err != nil {
		a.raw.Close()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = errSilent
		}
		return nil, fmt.Errorf("accept link from %s: %w", a.raw.RemoteAddr(), err)
	}
	return a, nil
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

// Refuse says why the link is not opened, and closes it. The other end has time to close first: a connection that is
// closed with something unread in it takes back what was said.
func (a *Asked) Refuse(reason wire.Reason, text string) { a.Part(Bye{Reason: reason, Text: text}) }

// Part is Refuse with a whole BYE.
func (a *Asked) Part(bye Bye) {
	defer a.raw.Close()
	a.raw.SetDeadline(time.Now().Add(heartbeat))
	// If that does not reach the other end, it finds the connection closed.
	if _, err := a.secure.Write(wire.AppendBye(nil, bye.Reason, bye.Text, bye.Offset, 0)); err == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(a.raw, drained))
	}
}

// past is a deadline that has passed: it ends what waits for a connection.
var past = time.Unix(1, 0)

// established returns a link whose opening is over.
func established(raw net.Conn, held *gate, secure *tls.Conn, plaintext bool) *Conn {
	raw.SetDeadline(time.Time{})
	if plaintext {
		return &Conn{raw: raw, data: raw, gate: held}
	}
	held.link = &Conn{raw: raw, data: secure, gate: held}
	return held.link
}
