package uplink

import (
	"context"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
)

// handshakes keeps how the last handshake with a manager went: gRPC does not say so before it has tried a call often enough.
type handshakes struct {
	mu  sync.Mutex
	err error
}

func (h *handshakes) note(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
}

// HandshakeError returns why the last handshake at a manager's address failed; nil if it did not, or there was none.
func (u *Uplink) HandshakeError() error {
	u.handshakes.mu.Lock()
	defer u.handshakes.mu.Unlock()
	return u.handshakes.err
}

// noted are credentials that note how their handshakes go.
type noted struct {
	credentials.TransportCredentials
	to *handshakes
}

func (n noted) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	connection, info, err := n.TransportCredentials.ClientHandshake(ctx, authority, raw)
	n.to.note(err)
	return connection, info, err
}

func (n noted) Clone() credentials.TransportCredentials {
	return noted{n.TransportCredentials.Clone(), n.to}
}
