package daemon

import (
	"context"
	"net"
)

// Network is where a service listens, and what it dials over.
type Network interface {
	Listen(network, address string) (net.Listener, error)
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Listen takes a port of the service's network. Of TCP it is plain TCP: the options of a socket
// for MPTCP, which Go listens with by itself, do not reach the connections that it accepts.
func (e Env) Listen(network, address string) (net.Listener, error) {
	if e.Network == nil {
		var plain net.ListenConfig
		plain.SetMultipathTCP(false)
		return plain.Listen(context.Background(), network, address)
	}
	return e.Network.Listen(network, address)
}

// DialContext dials over the service's network.
func (e Env) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if e.Network == nil {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	return e.Network.DialContext(ctx, network, address)
}
