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

// Listen takes a port of the service's network. For TCP it does not use MPTCP, with which Go
// listens by default: with that, socket options do not reach the accepted connections.
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
