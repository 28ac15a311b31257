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

// Listen takes a port of the service's network.
func (e Env) Listen(network, address string) (net.Listener, error) {
	if e.Network == nil {
		return net.Listen(network, address)
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
