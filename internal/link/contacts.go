package link

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/identity"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

const (
	// AgentsKeep is how long an agent can keep a contact: its peers wait longer for it to ask for something (see Door).
	AgentsKeep = contactTime - time.Minute
	// AllKeep is how long anybody can.
	AllKeep = openTime - time.Second
)

// Contacts keeps connections to peers that have proven who they are: a link that is opened over such a connection needs no
// round trips for that.
type Contacts struct {
	dialer   Dialer
	security identity.TLS
	lasting  time.Duration

	renewing singleflight.Group

	mu     sync.Mutex
	kept   map[place]*Contact
	closed bool
}

// place is where a peer is.
type place struct {
	peer    identity.ID
	address string
}

// NewContacts returns an empty collection. Each contact is kept for so long at most: AgentsKeep or AllKeep.
func NewContacts(dialer Dialer, security identity.TLS, lasting time.Duration) *Contacts {
	return &Contacts{dialer: dialer, security: security, lasting: lasting, kept: make(map[place]*Contact)}
}

// Prove returns the round trip to a peer, as RoundTrip does, and has the peer prove that it is what is at the
// address. The contact is kept.
func (c *Contacts) Prove(ctx context.Context, address string, peer identity.ID) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, measureTime)
	defer cancel()
	contact, err := connect(ctx, c.dialer, place{peer, address}, c.security)
	if err != nil {
		return 0, err
	}
	rtt := contact.roundTrip
	c.Keep(contact)
	return rtt, nil
}

// Keep keeps a contact that was not needed; contact may be nil.
func (c *Contacts) Keep(contact *Contact) {
	if contact == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		contact.Close()
		return
	}
	if other := c.kept[contact.place]; other != nil {
		if other.made.After(contact.made) {
			contact.Close()
			return
		}
		other.end()
	}
	contact.keeper = c
	contact.expiry = time.AfterFunc(time.Until(contact.made.Add(c.lasting)), func() { c.drop(contact) })
	c.kept[contact.place] = contact
}

// drop closes a contact that was kept for too long.
func (c *Contacts) drop(contact *Contact) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept[contact.place] == contact {
		delete(c.kept, contact.place)
		contact.Close()
	}
}

// end closes a contact that was kept.
func (c *Contact) end() {
	c.expiry.Stop()
	c.Close()
}

// Lacks reports whether a contact to a measured peer should be made, because there is none, or soon will be none: agents
// keep one to each of these.
func (c *Contacts) Lacks(address string, peer identity.ID) bool {
	if c.lasting < AgentsKeep {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	contact := c.kept[place{peer, address}]
	return contact == nil || time.Since(contact.made) > c.lasting/2 || !contact.isQuiet()
}

// Renew makes a contact to a peer for the next link, if it is lacking. Of several concurrent calls, one makes it. If that fails, the
// connection is made when it is needed.
func (c *Contacts) Renew(ctx context.Context, address string, peer identity.ID) {
	_, _, _ = c.renewing.Do(place{peer, address}.String(), func() (any, error) {
		if !c.Lacks(address, peer) {
			return nil, nil
		}
		return c.Prove(ctx, address, peer)
	})
}

// Connect returns a contact to a peer of a known identity that is about to be asked for something: the contact that is
// kept, or a new one.
func (c *Contacts) Connect(ctx context.Context, address string, peer identity.ID) (*Contact, error) {
	at := place{peer, address}
	c.mu.Lock()
	contact := c.kept[at]
	delete(c.kept, at)
	c.mu.Unlock()
	if contact != nil && contact.expiry.Stop() && contact.isQuiet() {
		return contact, nil
	}
	if contact != nil {
		contact.Close()
	}
	return connect(ctx, c.dialer, at, c.security)
}

// Ask opens a link to a parent, and tells it at once what it may send. So bytes come a round trip earlier than if
// Taking said so first.
func (c *Contacts) Ask(ctx context.Context, address string, peer identity.ID, hello wire.Hello, first Answer) (*Conn, wire.Welcome, error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	contact, err := c.Connect(ctx, address, peer)
	if err != nil {
		return nil, wire.Welcome{}, err
	}
	return contact.Ask(ctx, hello, first)
}

// Close closes the kept contacts; from then on none is kept.
func (c *Contacts) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, contact := range c.kept {
		contact.end()
	}
	clear(c.kept)
}

// isQuiet reports whether nothing has come since the peer proved who it is. A peer says nothing unasked: what came is the
// connection's end.
func (c *Contact) isQuiet() bool {
	socket, isSocket := c.raw.(syscall.Conn)
	if !isSocket {
		return true
	}
	control, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = control.Control(func(fd uintptr) {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		quiet = errors.Is(err, unix.EAGAIN)
	})
	return err == nil && quiet
}

func (p place) String() string { return p.peer.String() + " at " + p.address }
