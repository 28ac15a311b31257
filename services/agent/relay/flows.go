package relay

import (
	"context"
	"errors"
	"maps"
	"slices"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

var errNoDatagrams = errors.New("this agent has no port for datagrams")

// assignFlow begins a delivery in datagrams, or gives it its new place. It is called with h.mu held.
func (h *Hub) assignFlow(assignment *groupv1.Assignment) error {
	if f := h.flows[assignment.GetDelivery()]; f != nil {
		f.assign(assignment)
		return nil
	}
	if h.port == nil {
		return errNoDatagrams
	}
	f := newFlow(h, assignment)
	h.flows[assignment.GetDelivery()] = f
	h.links.Go(f.run)
	return nil
}

// dropFlow ends a delivery in datagrams here. It is called with h.mu held.
func (h *Hub) dropFlow(id string) {
	if f := h.flows[id]; f != nil {
		delete(h.flows, id)
		f.stop()
	}
}

// known returns the ids of all deliveries. It is called with h.mu held.
func (h *Hub) known() []string {
	return slices.AppendSeq(slices.Collect(maps.Keys(h.deliveries)), maps.Keys(h.flows))
}

func (h *Hub) allFlows() []*flow {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.flows))
}

// serveFlow does what a neighbour asks for in a delivery in datagrams.
func (h *Hub) serveFlow(ctx context.Context, asked *link.Asked, id string, holder identity.ID) {
	f, err := expecting(ctx, h, func() *flow { return h.flows[id] }, holder, asked.Offer)
	var reason *refusal
	switch {
	case errors.As(err, &reason):
		h.refuse(asked, reason.reason, err)
	case f.ctx.Err() != nil:
		h.refuse(asked, wire.Stopping, errStopping)
	case asked.Offer:
		f.takeOffer(asked)
	default:
		f.feed(asked, childName(holder))
	}
}
