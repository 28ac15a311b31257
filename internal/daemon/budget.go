package daemon

import (
	"errors"
	"log/slog"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"

	"github.com/groupcast/groupcast/internal/identity"
)

const (
	// pendingMost is what unanswered requests of all connections may hold, in bytes. When they hold more, the connection that holds
	// most is closed. At this most, each connection that a manager takes can have a call or two under way.
	pendingMost = 128 << 20
	// anonymousPending and anonymousCalls are what a connection without a certificate may hold, and how many calls it may have at once: one
	// to enroll, and some that were given up.
	anonymousPending = 64 << 10
	anonymousCalls   = 8
	// provenCalls is how many others may have: a caller that keeps to maxConcurrentStreams counts those that have just ended, too.
	provenCalls = 2 * maxConcurrentStreams
)

var errPending = errors.New("too many requests on one connection that are not answered")

// budget bounds what unanswered requests hold.
type budget struct {
	most int64
	log  *slog.Logger

	mu   sync.Mutex
	all  int64
	held map[*metered]int64
}

func newBudget(most int64, log *slog.Logger) *budget {
	return &budget{most: most, log: log, held: make(map[*metered]int64)}
}

// set says what a connection holds now. If all hold too much, those that hold most are closed, until they do not.
func (b *budget) set(c *metered, held int64) {
	for out := b.account(c, held); out != nil; out = b.account(c, held) {
		b.log.Warn("a connection is closed: of all, its unanswered requests take most memory", "peer", out.RemoteAddr())
		out.cut()
	}
}

// account returns which connection has to go. A gateway's, which many share, goes only if nobody else holds anything. One of another manager never does:
// it passes on only what has come whole there, and all its callers would call again.
func (b *budget) account(c *metered, held int64) (out *metered) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.gone {
		return nil
	}
	b.put(c, held)
	if b.all <= b.most {
		return nil
	}
	for other, holds := range b.held {
		switch {
		case other.role == identity.Manager:
		case out == nil, out.role == identity.Gateway && other.role != identity.Gateway:
			out = other
		case holds > b.held[out] && (other.role == identity.Gateway) == (out.role == identity.Gateway):
			out = other
		}
	}
	if out != nil {
		b.remove(out)
	}
	return out
}

func (b *budget) put(c *metered, held int64) {
	b.all += held - b.held[c]
	if b.held[c] = held; held == 0 {
		delete(b.held, c)
	}
}

func (b *budget) remove(c *metered) {
	b.put(c, 0)
	c.gone = true
}

// end says that a connection holds nothing any more.
func (b *budget) end(c *metered) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(c)
}

// meter has handshakes return connections that count in a budget.
type meter struct {
	credentials.TransportCredentials
	trustDomain string
	budget      *budget
}

// ServerHandshake implements credentials.TransportCredentials.
func (m *meter) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	connection, info, err := m.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	c := &metered{Conn: connection, budget: m.budget, cut: func() { raw.Close() }, most: m.budget.most, calls: provenCalls, pending: newPending()}
	if isAnonymous(info) {
		c.most, c.calls = anonymousPending, anonymousCalls
	}
	if shown, is := info.(credentials.TLSInfo); is {
		peer, _ := identity.PeerOf(shown.State, m.trustDomain)
		c.role = peer.ID.Role
	}
	if c.role == identity.Manager {
		c.most *= 2 // it has a budget of its own; what it passes on can come in other frames
	}
	return c, info, nil
}

// metered is a connection whose unanswered requests are counted.
type metered struct {
	net.Conn
	budget *budget
	cut    func()        // closes it without a word, for which TLS might have to wait
	most   int64         // that it may hold
	calls  int           // that it may have at once
	role   identity.Role // none without a certificate
	gone   bool          // from the budget, which guards it

	mu      sync.Mutex
	pending *pending
	told    int64 // what the budget knows that it holds
}

// Read implements net.Conn.
func (c *metered) Read(to []byte) (int, error) {
	n, err := c.Conn.Read(to)
	if over := c.count(func() { c.pending.received(to[:n]) }); over != nil {
		return 0, over
	}
	return n, err
}

// Write implements net.Conn.
func (c *metered) Write(from []byte) (int, error) {
	if err := c.count(func() { c.pending.sent(from) }); err != nil {
		return 0, err
	}
	return c.Conn.Write(from)
}

// Close closes the connection.
func (c *metered) Close() error {
	c.budget.end(c)
	return c.Conn.Close()
}

// count counts what passes, and says whether it is too much for one connection.
func (c *metered) count(pass func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	pass()
	if c.pending.held > c.most || len(c.pending.calls) > c.calls {
		return errPending
	}
	if held := c.pending.held; held != c.told {
		c.told = held
		c.budget.set(c, held)
	}
	return nil
}
