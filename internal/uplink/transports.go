package uplink

import (
	"sync"
	"time"

	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// renewAtMost is the least time between two renewals of connections: many at once may find that a manager is silent.
const renewAtMost = 2 * time.Second

// transports are the network connections below a gRPC connection. One may lead to a
// manager that hangs, through a proxy that is alive: only a new one finds another manager.
type transports struct {
	managers  *manual.Resolver
	endpoints []string

	mu      sync.Mutex
	made    int // how often they were made
	renewed time.Time
}

func newTransports(endpoints []string) *transports {
	t := &transports{managers: manual.NewBuilderWithScheme("groupcast"), endpoints: endpoints}
	t.managers.InitialState(t.addresses())
	return t
}

// generation is an attribute of an address: gRPC keeps a connection as long as its address is equal to the old one.
type generation struct{}

// addresses returns where to connect, as gRPC is to see it. It is called with t.mu held.
func (t *transports) addresses() (state resolver.State) {
	for _, endpoint := range t.endpoints {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: endpoint, Attributes: attributes.New(generation{}, t.made)})
	}
	return state
}

// renew makes new calls use new connections. Calls in progress end on the old ones.
func (t *transports) renew() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.renewed) < renewAtMost {
		return
	}
	t.made, t.renewed = t.made+1, time.Now()
	t.managers.UpdateState(t.addresses())
}

// move makes new calls go to other endpoints.
func (t *transports) move(endpoints []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endpoints = endpoints
	t.managers.UpdateState(t.addresses())
}
