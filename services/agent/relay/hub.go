// Package relay moves deliveries through an agent: it takes each from its parent in
// the delivery's tree, keeps it in the cache, and feeds it to its children, each at its
// own pace. What is acknowledged, promised and discarded is decided by algo/relay.
package relay

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/groupcast/groupcast/internal/algo/parallel"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/udp"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
	"github.com/groupcast/groupcast/services/agent/cache"
)

// Env is what a hub needs of the world.
type Env struct {
	Log      *slog.Logger
	Cache    *cache.Cache
	Security identity.TLS
	// Now is the managers' clock.
	Now func() time.Time
	// Contacts are the agents that are known. The hub closes them.
	Contacts *link.Contacts
	Metrics  *Metrics
	// Kept is how many files are kept open of ended deliveries, at most.
	Kept int
	// Stripes are how many connections a link may have; the zero Bounds are one.
	Stripes parallel.Bounds
	// Datagrams is where datagrams come and go, at the port of the listener. Nil has
	// deliveries in datagrams go past this agent. The hub closes it.
	Datagrams *udp.Socket
}

// Hub relays all deliveries of an agent.
type Hub struct {
	Env
	wake chan struct{}
	port *port // nil without datagrams
	// streamWindow is the most that is cached of a stream.
	streamWindow uint64
	// early bounds how many parents are dialled at once before anybody asks.
	early *semaphore.Weighted

	mu         sync.Mutex
	deliveries map[string]*delivery
	flows      map[string]*flow
	changed    chan struct{} // closed when assignments come
	links      sync.WaitGroup
	running    context.Context // nil until Run
}

// earlyMost is small, so that a place in many trees at once does not lead to many handshakes at once.
const earlyMost = 2

// New returns a hub without deliveries.
func New(env Env) *Hub {
	if env.Stripes.Most == 0 {
		env.Stripes = parallel.Bounds{Least: 1, Most: 1}
	}
	h := &Hub{
		Env: env, wake: make(chan struct{}, 1), deliveries: make(map[string]*delivery), flows: make(map[string]*flow),
		changed: make(chan struct{}), early: semaphore.NewWeighted(earlyMost), streamWindow: streamWindow,
	}
	if env.Datagrams != nil {
		h.port = newPort(env.Datagrams, env.Metrics)
	}
	return h
}

// Run accepts links until ctx is done, and ends all of them then.
func (h *Hub) Run(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.mu.Lock()
	h.running = ctx
	h.mu.Unlock()
	door := &link.Door{Security: h.Security, Log: h.Log, Serve: h.serve, Refused: h.Metrics.turnAway}
	defer door.Wait()
	defer h.end()
	defer h.Contacts.Close()
	defer cancel() // the port ends with this alone
	h.links.Go(func() { h.spareDisk(ctx) })
	h.links.Go(func() { h.spareRoom(ctx) })
	if h.port != nil {
		h.links.Go(func() { h.port.run(ctx) })
	}
	return door.Run(ctx, listener)
}

// assignPatience is how long a neighbour that knows of a tree before this agent does is kept waiting.
const assignPatience = 2 * time.Second

// serve finds out what a neighbour may, and does it.
func (h *Hub) serve(ctx context.Context, asked *link.Asked) {
	id := hex.EncodeToString(asked.Delivery[:])
	held, err := h.permitted(asked, id)
	if err != nil {
		h.refuse(asked, wire.Denied, err)
		return
	}
	waiting, cancel := context.WithTimeout(ctx, assignPatience)
	defer cancel()
	if asked.Datagrams {
		h.serveFlow(waiting, asked, id, held.Holder)
		return
	}
	d, err := expecting(waiting, h, func() *delivery { return h.deliveries[id] }, held.Holder, asked.Offer)
	var reason *refusal
	switch {
	case errors.As(err, &reason):
		h.refuse(asked, reason.reason, err)
		return
	case d.isPlaintext() != asked.Plaintext:
		h.refuse(asked, wire.Denied, errDataPlane)
		return
	}
	cancel()
	leave, err := d.enter()
	if err != nil {
		h.refuse(asked, wire.Stopping, err)
		return
	}
	defer leave()
	if asked.Offer {
		d.takeOffer(asked, held.Holder.Name)
	} else {
		d.feed(asked, childName(held.Holder))
	}
}

var errDataPlane = errors.New("the group's policy names another data plane")

// refusal is why a neighbour is not served.
type refusal struct {
	reason wire.Reason
	text   string
}

func (r *refusal) Error() string { return r.text }

func (h *Hub) refuse(asked *link.Asked, reason wire.Reason, err error) {
	h.Metrics.refused.WithLabelValues(reason.String()).Inc()
	h.Log.Info("a link was refused", "peer", asked.Peer.ID.String(), "reason", reason.String(), "error", err)
	asked.Refuse(reason, err.Error())
}

// permitted checks a neighbour's capability: it must be its own, of this delivery,
// and for what it asks.
func (h *Hub) permitted(asked *link.Asked, id string) (identity.Capability, error) {
	credentials, err := h.Security.Source.Credentials()
	if err != nil {
		return identity.Capability{}, err
	}
	held, err := identity.CheckCapability(asked.Capability, credentials.Roots, h.Security.TrustDomain, h.Now())
	if err != nil {
		return held, err
	}
	duty := held.Duty
	if asked.Offer != (duty == identity.Send) {
		return held, fmt.Errorf("%w: it is for another duty", identity.ErrCapability)
	}
	holder := asked.Peer.ID
	if held.Holder.Role == identity.Member && holder.MayBe(held.Holder.Name) {
		holder = held.Holder
	}
	return held, held.Permits(holder, held.Group, id, duty)
}

// assigned is a delivery at this agent, in bytes or in datagrams.
type assigned interface {
	comparable
	expects(id identity.ID, offer bool) bool
	version() uint64
}

// expecting waits for a delivery that expects a neighbour: that may have heard of a new tree a
// little before this agent does.
func expecting[D assigned](ctx context.Context, h *Hub, find func() D, holder identity.ID, offer bool) (D, error) {
	var none D
	for {
		h.mu.Lock()
		d, changed := find(), h.changed
		h.mu.Unlock()
		if d != none && d.expects(holder, offer) {
			return d, nil
		}
		select {
		case <-changed:
			continue
		case <-ctx.Done():
		}
		if d == none {
			return none, &refusal{wire.Unknown, "no such delivery here"}
		}
		return none, &refusal{wire.Stale, fmt.Sprintf("not a neighbour in tree version %d", d.version())}
	}
}

// Assign takes what has changed of what this agent has to do.
func (h *Hub) Assign(assignments *groupv1.Assignments) {
	h.mu.Lock()
	var dropped []*delivery
	drop := func(id string) {
		if d := h.deliveries[id]; d != nil {
			delete(h.deliveries, id)
			dropped = append(dropped, d)
		}
		h.dropFlow(id)
	}
	listed := make(map[string]bool)
	for _, assignment := range assignments.GetCurrent() {
		listed[assignment.GetDelivery()] = true
		if err := h.assign(assignment); err != nil {
			h.Log.Error("a delivery cannot be relayed", "delivery", assignment.GetDelivery(), "error", err)
		}
	}
	for _, id := range assignments.GetDropped() {
		drop(id)
	}
	for _, id := range h.known() {
		if assignments.GetComplete() && !listed[id] {
			drop(id)
		}
	}
	close(h.changed)
	h.changed = make(chan struct{})
	h.mu.Unlock()
	for _, d := range dropped {
		d.drop()
	}
	h.boundKept()
}

// assign begins a delivery, or gives it its new place. It is called with h.mu held.
func (h *Hub) assign(assignment *groupv1.Assignment) error {
	if d := h.deliveries[assignment.GetDelivery()]; d != nil {
		d.assign(assignment)
		return nil
	}
	if h.running == nil || h.running.Err() != nil {
		return errStopping
	}
	if assignment.GetSpec().GetDatagrams() != nil {
		return h.assignFlow(assignment)
	}
	d, err := newDelivery(h, assignment)
	if err != nil {
		return err
	}
	h.deliveries[assignment.GetDelivery()] = d
	h.links.Go(d.run)
	return nil
}

var errStopping = errors.New("the agent stops")

// end ends all deliveries.
func (h *Hub) end() {
	h.mu.Lock()
	deliveries := h.deliveries
	h.deliveries = make(map[string]*delivery)
	h.mu.Unlock()
	for _, d := range deliveries {
		d.drop()
	}
	h.links.Wait()
}

// Wake tells when there is something to report before it is time.
func (h *Hub) Wake() <-chan struct{} { return h.wake }

// Report has a report sent soon.
func (h *Hub) Report() {
	select {
	case h.wake <- struct{}{}:
	default: // a report is due already
	}
}

// restingBytes is about how large the reports of deliveries that rest may be in one message. There may be more of
// them than it can hold.
const restingBytes = 1 << 20

// Reports returns how the deliveries stand: all that run, and those that rest if the managers
// do not know that yet. Managers are told of all of them anew whenever they send this agent all that it has to do.
func (h *Hub) Reports() []*groupv1.DeliveryReport {
	var reports []*groupv1.DeliveryReport
	room := restingBytes
	for _, d := range h.all() {
		if report := d.report(&room); report != nil {
			reports = append(reports, report)
		}
	}
	for _, f := range h.allFlows() {
		reports = append(reports, f.report())
	}
	return reports
}

func (h *Hub) all() []*delivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*delivery, 0, len(h.deliveries))
	for _, d := range h.deliveries {
		all = append(all, d)
	}
	return all
}

// Load says how busy the agent is.
type Load struct {
	CacheBytes uint64
	Links      int
}

// Load returns how busy the agent is.
func (h *Hub) Load() Load {
	load := Load{CacheBytes: h.Cache.Reserved()}
	for _, d := range h.all() {
		load.Links += d.links()
	}
	for _, f := range h.allFlows() {
		load.Links += f.links()
	}
	return load
}

// Deliveries returns how many are relayed or kept.
func (h *Hub) Deliveries() int { return len(h.all()) + len(h.allFlows()) }

// Held returns how much the cache holds of all deliveries.
func (h *Hub) Held() (bytes uint64) {
	for _, d := range h.all() {
		bytes += d.held()
	}
	return bytes
}

// StripeCount returns how many connections the links to children are to have, streams in datagrams apart.
func (h *Hub) StripeCount() (n int) {
	for _, d := range h.all() {
		n += d.stripeCount()
	}
	return n
}

// Credit returns how much parents may send that has not come yet.
func (h *Hub) Credit() (bytes uint64) {
	for _, d := range h.all() {
		bytes += d.credit()
	}
	return bytes
}

// spareInterval is how often the cache's disk is looked at, whether others need it.
const spareInterval = time.Second

// spareDisk gives back what is kept of deliveries that have ended, one after the other, while others have filled the cache's
// disk, or no more files can be opened, until ctx is done.
func (h *Hub) spareDisk(ctx context.Context) {
	for pause.For(ctx, spareInterval) {
		if h.Cache.Short() || lacksFiles(tryFile()) {
			h.giveUpKept()
		}
	}
}

// spareRoom gives back what is kept of a delivery that has ended whenever another lacks room, until ctx is done. A delivery
// that still lacks some says so again.
func (h *Hub) spareRoom(ctx context.Context) {
	pressure := h.Cache.Pressure()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pressure:
		}
		h.giveUpKept()
		pressure = h.Cache.Pressure() // whoever has said so again meanwhile has some now, or says so once more
	}
}

// boundKept gives back what is kept in more files than may be.
func (h *Hub) boundKept() {
	for h.keptFiles() > h.Kept && h.giveUpKept() {
	}
}

// keptFiles returns in how many files ended deliveries are kept.
func (h *Hub) keptFiles() (files int) {
	for _, d := range h.all() {
		if !d.endedAt().IsZero() {
			files += d.entry.Files()
		}
	}
	return files
}

// giveUpKept gives back what is kept of one delivery, because others need the room: of one whose beginning is gone, which few members can
// still use, or else of the one that ended first. It reports whether there was one.
func (h *Hub) giveUpKept() bool {
	type resting struct {
		*delivery
		since time.Time
		begun uint64 // from where on it is kept
	}
	var kept []resting
	for _, d := range h.all() {
		if since := d.endedAt(); !since.IsZero() {
			kept = append(kept, resting{d, since, d.keptFrom()})
		}
	}
	slices.SortFunc(kept, func(a, b resting) int {
		return cmp.Or(cmp.Compare(min(b.begun, 1), min(a.begun, 1)), a.since.Compare(b.since))
	})
	return slices.ContainsFunc(kept, func(d resting) bool { return d.releaseKept() })
}
