package fleet

import (
	"context"
	"io"
	"net"
	"sync"

	"github.com/groupcast/groupcast/e2e/lab"
)

// wire carries connections from an address on one host to the manager on another, bypassing the emulated network.
type wire struct {
	listener net.Listener
	ctx      context.Context
	cancel   context.CancelFunc
	manager  *lab.Host
	carried  sync.WaitGroup
}

// lay lays a wire from a host, or from this process if it is nil.
func lay(ctx context.Context, from, manager *lab.Host, address string) (*wire, error) {
	listen := func() (net.Listener, error) { return (&net.ListenConfig{}).Listen(ctx, "tcp4", address) }
	if from != nil {
		listen = func() (net.Listener, error) { return from.Listen(ctx, "tcp4", address) }
	}
	if from == manager {
		return &wire{}, nil // there is one already
	}
	listener, err := listen()
	if err != nil {
		return nil, err
	}
	w := &wire{listener: listener, manager: manager}
	w.ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	w.carried.Go(w.accept)
	return w, nil
}

func (w *wire) address() string { return w.listener.Addr().String() }

func (w *wire) accept() {
	for {
		near, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.carried.Go(func() { w.carry(near) })
	}
}

// carry joins a connection with one to the manager, until either ends.
func (w *wire) carry(near net.Conn) {
	defer near.Close()
	far, err := w.manager.Dial(w.ctx, "tcp4", controlAddress)
	if err != nil {
		return
	}
	defer far.Close()
	defer context.AfterFunc(w.ctx, func() { near.Close(); far.Close() })()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(near, far)
		near.Close()
	})
	_, _ = io.Copy(far, near)
	far.Close()
	back.Wait()
}

func (w *wire) cut() {
	if w.listener == nil {
		return
	}
	w.cancel()
	_ = w.listener.Close()
	w.carried.Wait()
}
