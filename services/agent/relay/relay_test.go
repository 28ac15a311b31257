package relay_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/groupcast/groupcast/internal/algo/parallel"
	"github.com/groupcast/groupcast/internal/datagram"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
	"github.com/groupcast/groupcast/services/agent/cache"
	"github.com/groupcast/groupcast/services/agent/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long anything may take in these tests.
const patience = 30 * time.Second

var deliveryID = wire.DeliveryID{1, 2, 3}

// world is a delivery without managers: the test assigns, and signs capabilities.
type world struct {
	*testing.T
	ca      *identity.CA
	manager *identity.Credentials
	spec    *groupv1.DeliverySpec
	version uint64
	agents  map[string]*agent
	content []byte
	stripes parallel.Bounds
	dialer  link.Dialer // of agents
}

// agent is an agent's hub, listening on loopback.
type agent struct {
	*relay.Hub
	address  string
	metrics  *prometheus.Registry
	parent   *groupv1.Neighbour
	children []*groupv1.Neighbour
}

func newWorld(t *testing.T, size int, spec *groupv1.DeliverySpec) *world {
	ca, err := identity.NewCA(identity.DefaultTrustDomain, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, ca: ca, spec: spec, version: 1, agents: make(map[string]*agent), content: make([]byte, size), dialer: &net.Dialer{}}
	rand.NewChaCha8([32]byte{1}).Read(w.content)
	w.manager, err = w.identity(identity.ID{Role: identity.Manager, Name: "manager-0"}).Source.Credentials()
	if err != nil {
		t.Fatal(err)
	}
	spec.Kind, spec.Length = groupv1.DeliveryKind_DELIVERY_KIND_FILE, uint64(size)
	return w
}

func (w *world) identity(id identity.ID) identity.TLS {
	source, err := identity.NewSelfIssued(w.ca, id)
	if err != nil {
		w.Fatal(err)
	}
	return identity.TLS{TrustDomain: identity.DefaultTrustDomain, Source: source}
}

// start starts an agent with a cache of some size.
func (w *world) start(name string, room uint64) *agent {
	w.Helper()
	store, err := cache.Open(w.TempDir(), room)
	if err != nil {
		w.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	datagrams, err := datagram.Listen(listener.Addr().String())
	if err != nil {
		w.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(w.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})).With("agent", name)
	a := &agent{
		Hub: relay.New(relay.Env{
			Log: log, Cache: store, Security: w.identity(identity.ID{Role: identity.Agent, Name: name}),
			Now: time.Now, Dialer: w.dialer, Metrics: relay.NewMetrics(), Stripes: w.stripes, Datagrams: datagrams,
		}),
		address: listener.Addr().String(), metrics: prometheus.NewRegistry(),
	}
	a.metrics.MustRegister(a.Metrics)
	w.agents[name] = a
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx, listener) }()
	w.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("%s: %v", name, err)
		}
		if used := store.Reserved(); used != 0 {
			w.Errorf("%s: %d bytes of the cache are never given back", name, used)
		}
		w.balance(name, a)
	})
	return a
}

// balance checks that every byte that came has gone again.
func (w *world) balance(name string, a *agent) {
	received, discarded := a.count(w, "received_bytes"), a.count(w, "discarded_bytes")
	if received != discarded {
		w.Errorf("%s: %v bytes were received and %v discarded", name, received, discarded)
	}
}

func (a *agent) count(w *world, metric string) float64 {
	families, err := a.metrics.Gather()
	if err != nil {
		w.Fatal(err)
	}
	var sum float64
	for _, family := range families {
		if family.GetName() == "groupcast_agent_"+metric+"_total" {
			for _, m := range family.GetMetric() {
				sum += value(m)
			}
		}
	}
	return sum
}

func value(m *dto.Metric) float64 { return m.GetCounter().GetValue() }

func (w *world) capability(holder identity.ID, duty identity.Duty) []byte {
	w.Helper()
	now := time.Now()
	token, err := identity.SignCapability(w.manager, identity.Capability{
		Holder: holder, Group: "g", Delivery: hex.EncodeToString(deliveryID[:]), Duty: duty, Issued: now, Expires: now.Add(identity.CapabilityLifetime),
	})
	if err != nil {
		w.Fatal(err)
	}
	return token
}

// neighbour is a member, or an agent of this world.
func (w *world) neighbour(name string) *groupv1.Neighbour {
	if a := w.agents[name]; a != nil {
		return &groupv1.Neighbour{Name: name, Role: string(identity.Agent), Addresses: []string{a.address}}
	}
	return &groupv1.Neighbour{Name: name, Role: string(identity.Member)}
}

// tree puts an agent into its place; the first is fed by the sender.
func (w *world) tree(name, parent string, children ...string) {
	w.Helper()
	a := w.agents[name]
	a.parent, a.children = w.neighbour(parent), nil
	for _, child := range children {
		neighbour := w.neighbour(child)
		neighbour.Addresses = nil
		a.children = append(a.children, neighbour)
	}
	w.assign(name, false)
}

func (w *world) assign(name string, ended bool) {
	w.Helper()
	a := w.agents[name]
	w.await("the agent runs", func() bool {
		a.Assign(&groupv1.Assignments{Current: []*groupv1.Assignment{{
			Delivery: hex.EncodeToString(deliveryID[:]), Group: "g", Duty: groupv1.Duty_DUTY_RELAY, TreeVersion: w.version,
			Spec: proto.CloneOf(w.spec), Sender: "sender", Parent: a.parent, Children: a.children, Ended: ended,
			Capability: w.capability(identity.ID{Role: identity.Agent, Name: name}, identity.Relay),
		}}})
		return len(a.Reports()) > 0
	})
}

func (w *world) await(what string, holds func() bool) {
	w.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("waited too long until %s", what)
		}
	}
}

// send feeds an agent until it has all, again when the link breaks.
func (w *world) send(ctx context.Context, to string) error {
	file := filepath.Join(w.TempDir(), "source")
	if err := os.WriteFile(file, w.content, 0o600); err != nil {
		return err
	}
	source, err := os.Open(file)
	if err != nil {
		return err
	}
	defer source.Close()
	sender := identity.ID{Role: identity.Member, Name: "sender"}
	hello := w.hello(w.capability(sender, identity.Send))
	hello.Offer = true
	for ctx.Err() == nil {
		conn, welcome, err := link.Dial(ctx, &net.Dialer{}, w.agents[to].address, w.identity(sender), identity.ID{Role: identity.Agent, Name: to}, hello)
		var refusal *wire.Refusal
		if errors.As(err, &refusal) && refusal.Reason == wire.Done {
			time.Sleep(50 * time.Millisecond) // it may want it again
			continue
		}
		if err != nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		_ = link.Feed(ctx, conn, welcome.From, &supply{source, uint64(len(w.content))})
	}
	return nil
}

func (w *world) hello(capability []byte) wire.Hello {
	return wire.Hello{
		Stripes: 1, Delivery: deliveryID, TreeVersion: w.version, Capability: capability,
		Plaintext: w.spec.GetDataPlane() == groupv1.DataPlane_DATA_PLANE_PLAINTEXT,
	}
}

// supply is a file that is sent.
type supply struct {
	file   *os.File
	length uint64
}

func (s *supply) Next(offset, most uint64) (link.Portion, error) {
	if offset == s.length {
		return link.Portion{End: &link.End{Length: s.length}, TreeVersion: 1}, nil
	}
	return link.Portion{File: s.file, At: offset, Length: min(most, s.length-offset), TreeVersion: 1}, nil
}

func (s *supply) Sent(uint64, link.Portion)      {}
func (s *supply) Acked(uint64, wire.Level) error { return nil }

// member receives into memory.
type member struct {
	name string
	pace time.Duration // per piece that lands

	mu      sync.Mutex
	got     bytes.Buffer
	end     *link.End
	changed chan struct{}
}

func newMember(name string) *member { return &member{name: name, changed: make(chan struct{})} }

func (m *member) Section(uint64) (link.Place, int64, error) { return link.Place{To: m}, 64 << 10, nil }

func (m *member) Write(p []byte) (int, error) {
	time.Sleep(m.pace)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.got.Write(p)
}

func (m *member) announce() {
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *member) Landed(uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.announce()
	return nil
}

func (m *member) End(end link.End) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end = &end
	m.announce()
	return nil
}

func (m *member) Answer() link.Answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return link.Answer{Ack: uint64(m.got.Len()), Level: wire.Received, Credit: wire.MaxOffset, Done: m.end != nil, Changed: m.changed}
}

func (m *member) has() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.got.Len()
}

func (m *member) isDone() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.end != nil
}

// pull has a member take all from an agent, over however many links.
func (w *world) pull(ctx context.Context, m *member, from func() string) error {
	id := identity.ID{Role: identity.Member, Name: m.name}
	hello := w.hello(w.capability(id, identity.Receive))
	for ctx.Err() == nil && !m.isDone() {
		parent := from()
		hello.From = uint64(m.has())
		conn, _, err := link.Dial(ctx, &net.Dialer{}, w.agents[parent].address, w.identity(id), identity.ID{Role: identity.Agent, Name: parent}, hello)
		var refusal *wire.Refusal
		if errors.As(err, &refusal) && refusal.Reason == wire.Slow {
			return err
		}
		if err != nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if err := link.Take(ctx, conn, hello.From, m); err != nil {
			w.Logf("%s: %v", m.name, err)
			var ended *link.Ended
			if errors.As(err, &ended) && ended.Reason == wire.Slow {
				return err
			}
		}
	}
	return nil
}

// deliver sends to an agent, and has each member pull from its own.
func (w *world) deliver(first string, members map[*member]string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	sending, done := context.WithCancel(ctx)
	var sender, pulling sync.WaitGroup
	sender.Go(func() {
		if err := w.send(sending, first); err != nil {
			w.Error(err)
		}
	})
	for m, parent := range members {
		pulling.Go(func() {
			if err := w.pull(ctx, m, func() string { return parent }); err != nil {
				w.Errorf("%s: %v", m.name, err)
			}
		})
	}
	pulling.Wait()
	done()
	sender.Wait()
	for m := range members {
		for i, b := range m.got.Bytes() {
			if i >= len(w.content) || b != w.content[i] {
				w.Logf("%s differs at %d", m.name, i)
				break
			}
		}
		if !m.isDone() || !bytes.Equal(m.got.Bytes(), w.content) {
			w.Errorf("%s has %d bytes of %d, ended: %t, the right ones: %t", m.name, m.has(), len(w.content), m.isDone(), bytes.Equal(m.got.Bytes(), w.content))
		}
	}
}

func modes() map[string]*groupv1.DeliverySpec {
	specs := make(map[string]*groupv1.DeliverySpec)
	for _, mode := range []groupv1.ControlMode{groupv1.ControlMode_CONTROL_MODE_HOP, groupv1.ControlMode_CONTROL_MODE_END_TO_END} {
		for _, plane := range []groupv1.DataPlane{groupv1.DataPlane_DATA_PLANE_TLS, groupv1.DataPlane_DATA_PLANE_PLAINTEXT} {
			specs[fmt.Sprintf("%v-%v", mode, plane)] = &groupv1.DeliverySpec{
				ControlMode: mode, DataPlane: plane,
				SlowMember: &groupv1.SlowMemberPolicy{Action: groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_DETACH},
			}
		}
	}
	return specs
}

func TestEveryMemberGetsAll(t *testing.T) {
	for name, spec := range modes() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 9<<20+5, spec)
			w.start("sa1", 64<<20)
			w.start("sa2", 64<<20)
			w.tree("sa1", "sender", "sa2", "r1", "r2")
			w.tree("sa2", "sa1", "r3", "r4")
			w.deliver("sa1", map[*member]string{newMember("r1"): "sa1", newMember("r2"): "sa1", newMember("r3"): "sa2", newMember("r4"): "sa2"})
			if sent := w.agents["sa1"].count(w, "sent_bytes"); sent != 3*float64(len(w.content)) {
				t.Errorf("SA1 sent %v bytes, want three times the object", sent)
			}
		})
	}
}

// The cache never holds more than its limit, in either mode, and nothing is lost.
func TestObjectLargerThanEveryCache(t *testing.T) {
	for name, spec := range modes() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 12<<20+5, spec)
			w.start("sa1", 2<<20)
			w.start("sa2", 1<<20)
			w.tree("sa1", "sender", "sa2", "r1")
			w.tree("sa2", "sa1", "r2")
			most := w.watchHeld("sa1")
			w.deliver("sa1", map[*member]string{newMember("r1"): "sa1", newMember("r2"): "sa2"})
			if got := most(); got > 2<<20 {
				t.Errorf("SA1 held %d bytes, its limit is %d", got, 2<<20)
			}
		})
	}
}

// watchHeld returns the most that an agent's cache has held, when asked.
func (w *world) watchHeld(name string) (most func() uint64) {
	stop, stopped := make(chan struct{}), make(chan uint64)
	go func() {
		var held uint64
		for {
			select {
			case <-stop:
				stopped <- held
				return
			case <-time.After(time.Millisecond):
				held = max(held, w.agents[name].Held())
			}
		}
	}()
	return func() uint64 {
		close(stop)
		return <-stopped
	}
}

// Detach: the others are not held up, and the slow one gets all in the end.
func TestSlowMemberIsDetached(t *testing.T) {
	spec := modes()["CONTROL_MODE_HOP-DATA_PLANE_PLAINTEXT"]
	w := newWorld(t, 12<<20, spec)
	w.start("sa1", 2<<20)
	w.tree("sa1", "sender", "fast", "slow")
	fast, slow := newMember("fast"), newMember("slow")
	slow.pace = 8 * time.Millisecond // per 64 KiB
	w.deliver("sa1", map[*member]string{fast: "sa1", slow: "sa1"})
	if restarts := w.agents["sa1"].count(w, "restarts"); restarts != 1 {
		t.Errorf("begun again %v times, want once", restarts)
	}
}

// C11, C16: who has no capability for this delivery is refused, and learns nothing.
func TestC16CapabilityOfAnother(t *testing.T) {
	w := newWorld(t, 1000, modes()["CONTROL_MODE_HOP-DATA_PLANE_TLS"])
	w.start("sa1", 1<<20)
	w.tree("sa1", "sender", "r1")
	r1, r2 := identity.ID{Role: identity.Member, Name: "r1"}, identity.ID{Role: identity.Member, Name: "r2"}
	other := wire.DeliveryID{9}
	for name, tt := range map[string]struct {
		as     identity.ID
		change func(*wire.Hello)
		reason wire.Reason
	}{
		"none":                     {r1, func(h *wire.Hello) { h.Capability = nil }, wire.Denied},
		"of another member":        {r2, func(*wire.Hello) {}, wire.Denied},
		"for another delivery":     {r1, func(h *wire.Hello) { h.Delivery = other }, wire.Denied},
		"to receive, used to send": {r1, func(h *wire.Hello) { h.Offer = true }, wire.Denied},
		"tampered":                 {r1, func(h *wire.Hello) { h.Capability[len(h.Capability)-1] ^= 1 }, wire.Denied},
		"another data plane":       {r1, func(h *wire.Hello) { h.Plaintext = true }, wire.Denied},
	} {
		t.Run(name, func(t *testing.T) {
			hello := w.hello(w.capability(r1, identity.Receive))
			tt.change(&hello)
			_, _, err := link.Dial(t.Context(), &net.Dialer{}, w.agents["sa1"].address, w.identity(tt.as), identity.ID{Role: identity.Agent, Name: "sa1"}, hello)
			var refusal *wire.Refusal
			if !errors.As(err, &refusal) || refusal.Reason != tt.reason {
				t.Errorf("%v, want it refused as %v", err, tt.reason)
			}
		})
	}
	hello := w.hello(w.capability(r2, identity.Receive))
	_, _, err := link.Dial(t.Context(), &net.Dialer{}, w.agents["sa1"].address, w.identity(r2), identity.ID{Role: identity.Agent, Name: "sa1"}, hello)
	var refusal *wire.Refusal
	if !errors.As(err, &refusal) || refusal.Reason != wire.Stale {
		t.Errorf("a member that is not in the tree: %v, want stale", err)
	}
}

// Children of an agent that is gone go on from another, where they were.
func TestChildGoesOnFromAnotherParent(t *testing.T) {
	for name, spec := range modes() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 24<<20, spec)
			for _, name := range []string{"sa1", "sa2", "sa3"} {
				w.start(name, 64<<20)
			}
			w.tree("sa1", "sender", "sa2", "sa3")
			w.tree("sa2", "sa1", "r1")
			w.tree("sa3", "sa1", "r2")
			r1, r2 := newMember("r1"), newMember("r2")
			r1.pace, r2.pace = time.Millisecond, time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var mu sync.Mutex
			parent := "sa2"
			var running sync.WaitGroup
			sending, done := context.WithCancel(ctx)
			running.Go(func() { _ = w.send(sending, "sa1") })
			var pulling sync.WaitGroup
			pulling.Go(func() {
				_ = w.pull(ctx, r1, func() string {
					mu.Lock()
					defer mu.Unlock()
					return parent
				})
			})
			pulling.Go(func() { _ = w.pull(ctx, r2, func() string { return "sa3" }) })
			w.await("r1 has some", func() bool { return r1.has() > 4<<20 })
			mu.Lock()
			parent = "sa3"
			mu.Unlock()
			w.agents["sa2"].Assign(&groupv1.Assignments{Complete: true}) // it has nothing to do any more
			w.version = 2
			w.tree("sa1", "sender", "sa3")
			w.tree("sa3", "sa1", "r1", "r2")
			pulling.Wait()
			done()
			running.Wait()
			for _, m := range []*member{r1, r2} {
				if !bytes.Equal(m.got.Bytes(), w.content) {
					t.Errorf("%s has %d bytes, the right ones: %t", m.name, m.has(), bytes.Equal(m.got.Bytes(), w.content))
				}
			}
		})
	}
}

// An ended delivery is kept for those who come late, until others need its room.
func TestKeptDeliveryGivesWay(t *testing.T) {
	w := newWorld(t, 1<<20, modes()["CONTROL_MODE_HOP-DATA_PLANE_TLS"])
	w.start("sa1", 4<<20)
	w.tree("sa1", "sender", "r1")
	w.deliver("sa1", map[*member]string{newMember("r1"): "sa1"})
	w.assign("sa1", true)
	if held := w.agents["sa1"].Held(); held != 1<<20 {
		t.Fatalf("%d bytes are kept, want all", held)
	}
	entry := w.agents["sa1"].Cache.Create()
	defer entry.Close()
	w.await("there is room", func() bool { return entry.Room(4<<20) == 4<<20 })
}

func TestSlowMemberIsEvicted(t *testing.T) {
	spec := modes()["CONTROL_MODE_HOP-DATA_PLANE_TLS"]
	spec.SlowMember = &groupv1.SlowMemberPolicy{Action: groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_EVICT, LagBytes: 4 << 20}
	w := newWorld(t, 32<<20, spec)
	w.start("sa1", 64<<20)
	w.tree("sa1", "sender", "slow")
	slow := newMember("slow")
	slow.pace = 20 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var sending sync.WaitGroup
	sending.Go(func() { _ = w.send(ctx, "sa1") })
	// What is queued for it may hold up the farewell: it then hears when it comes back.
	if err := w.pull(ctx, slow, func() string { return "sa1" }); err == nil || slow.isDone() {
		t.Errorf("%v, want it given up as slow", err)
	}
	cancel()
	sending.Wait()
}

// An order of the tree that makes a loop moves nothing and harms nothing: the next one counts.
func TestLoopDoesNoHarm(t *testing.T) {
	w := newWorld(t, 1<<20, modes()["CONTROL_MODE_HOP-DATA_PLANE_TLS"])
	w.start("sa1", 64<<20)
	w.start("sa2", 64<<20)
	w.tree("sa1", "sa2", "sa2", "r1")
	w.tree("sa2", "sa1", "sa1")
	r1 := newMember("r1")
	var pulling sync.WaitGroup
	pulling.Go(func() { _ = w.pull(t.Context(), r1, func() string { return "sa1" }) })
	w.await("r1 has asked", func() bool { return w.agents["sa1"].Load().Links > 0 })
	if r1.has() > 0 {
		t.Errorf("%d bytes came out of nowhere", r1.has())
	}
	w.version = 2
	w.tree("sa2", "sa1", "r2")
	w.tree("sa1", "sender", "sa2", "r1")
	w.deliver("sa1", map[*member]string{newMember("r2"): "sa2"})
	pulling.Wait()
	if !bytes.Equal(r1.got.Bytes(), w.content) {
		t.Errorf("r1 has %d bytes", r1.has())
	}
}

// Who measures a round trip is no attack: it is counted apart from what is refused.
func TestMeasuringIsNotRefused(t *testing.T) {
	w := newWorld(t, 0, &groupv1.DeliverySpec{})
	a := w.start("sa1", 1<<20)
	measure := func(prove bool) error {
		if prove {
			own := w.identity(identity.ID{Role: identity.Member, Name: "m"})
			_, err := link.ProveRoundTrip(t.Context(), &net.Dialer{}, a.address, own, identity.ID{Role: identity.Agent, Name: "sa1"})
			return err
		}
		_, err := link.RoundTrip(t.Context(), &net.Dialer{}, a.address)
		return err
	}
	for i := range 20 {
		if err := measure(i%2 == 0); err != nil {
			t.Fatal(err)
		}
	}
	w.await("all are counted", func() bool { return a.count(w, "probes") == 20 })
	if refused := a.count(w, "refused_links"); refused != 0 {
		t.Errorf("%v were refused", refused)
	}
}
