package relay_test

import (
	"bytes"
	"cmp"
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
	"google.golang.org/protobuf/proto"

	"github.com/groupcast/groupcast/internal/algo/parallel"
	"github.com/groupcast/groupcast/internal/datagram"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/udp"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
	"github.com/groupcast/groupcast/services/agent/cache"
	"github.com/groupcast/groupcast/services/agent/relay"
)

// patience is how long anything may take in these tests.
const patience = 30 * time.Second

var deliveryID = wire.DeliveryID{1, 2, 3}

// world is a delivery without managers: the test assigns, and signs capabilities.
type world struct {
	*testing.T
	ca      *identity.CA
	manager *identity.Credentials
	id      wire.DeliveryID
	spec    *groupv1.DeliverySpec
	version uint64
	sealed  bool // the managers know how long it is
	agents  map[string]*agent
	content []byte
	stripes parallel.Bounds
	dialer  link.Dialer // the agents' dialer
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
	w := &world{T: t, ca: ca, id: deliveryID, spec: spec, version: 1, agents: make(map[string]*agent), content: make([]byte, size), dialer: &net.Dialer{}}
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
	return w.startIn(name, w.TempDir(), room)
}

// startIn starts an agent with a cache of some size in a directory.
func (w *world) startIn(name, dir string, room uint64) *agent {
	w.Helper()
	store, err := cache.Open(dir, room, cache.Disk{})
	if err != nil {
		w.Fatal(err)
	}
	listener, datagrams := w.ports()
	log := slog.New(slog.NewTextHandler(w.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})).With("agent", name)
	security := w.identity(identity.ID{Role: identity.Agent, Name: name})
	a := &agent{
		Hub: relay.New(relay.Env{
			Log: log, Cache: store, Security: security,
			Now: time.Now, Contacts: link.NewContacts(w.dialer, security, link.AgentsKeep), Metrics: relay.NewMetrics(), Stripes: w.stripes, Datagrams: datagrams, Kept: 1 << 10,
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

// ports takes a port for links and for datagrams. One of TCP is mostly free for UDP, too, but others use UDP as well.
func (w *world) ports() (net.Listener, *udp.Socket) {
	w.Helper()
	for try := 1; ; try++ {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			w.Fatal(err)
		}
		datagrams, err := datagram.Listen(listener.Addr().String())
		if err == nil {
			return listener, datagrams
		}
		listener.Close()
		if try == 10 {
			w.Fatal(err)
		}
	}
}

// balance checks that every byte that came has gone again.
func (w *world) balance(name string, a *agent) {
	received, discarded := a.count(w, "received_bytes"), a.count(w, "discarded_bytes")
	if received != discarded {
		w.Errorf("%s: %v bytes were received and %v discarded", name, received, discarded)
	}
}

func (a *agent) count(w *world, metric string) float64 {
	var sum float64
	for _, n := range a.counts(w, metric) {
		sum += n
	}
	return sum
}

// counts returns a counter by the value of its label.
func (a *agent) counts(w *world, metric string) map[string]float64 {
	families, err := a.metrics.Gather()
	if err != nil {
		w.Fatal(err)
	}
	by := make(map[string]float64)
	for _, family := range families {
		if family.GetName() != "groupcast_agent_"+metric+"_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			var label string
			for _, pair := range m.GetLabel() {
				label = pair.GetValue()
			}
			by[label] += m.GetCounter().GetValue()
		}
	}
	return by
}

func (w *world) capability(holder identity.ID, duty identity.Duty) []byte {
	w.Helper()
	return w.capabilityOf(holder, duty, time.Now())
}

// capabilityOf returns a capability that was issued at some time.
func (w *world) capabilityOf(holder identity.ID, duty identity.Duty, now time.Time) []byte {
	w.Helper()
	token, err := sign(w.manager, w.id, holder, duty, now)
	if err != nil {
		w.Fatal(err)
	}
	return token
}

func sign(manager *identity.Credentials, delivery wire.DeliveryID, holder identity.ID, duty identity.Duty, now time.Time) ([]byte, error) {
	return identity.SignCapability(manager, identity.Capability{
		Holder: holder, Group: "g", Delivery: hex.EncodeToString(delivery[:]), Duty: duty, Issued: now, Expires: now.Add(identity.CapabilityLifetime),
	})
}

// neighbour returns a member, or an agent of this world, as a neighbour.
func (w *world) neighbour(name string) *groupv1.Neighbour {
	if a := w.agents[name]; a != nil {
		return &groupv1.Neighbour{Name: name, Role: string(identity.Agent), Addresses: []string{a.address}}
	}
	return &groupv1.Neighbour{Name: name, Role: string(identity.Member)}
}

// tree puts an agent into its place; the sender feeds the first agent.
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
			Delivery: hex.EncodeToString(w.id[:]), Group: "g", Duty: groupv1.Duty_DUTY_RELAY, TreeVersion: w.version,
			Spec: proto.CloneOf(w.spec), Sender: "sender", Parent: a.parent, Children: a.children, Ended: ended,
			Sealed: w.sealed, Length: uint64(len(w.content)),
			Capability: w.capability(identity.ID{Role: identity.Agent, Name: name}, identity.Relay),
		}}})
		return a.Deliveries() > 0
	})
}

func (w *world) await(what string, holds func() bool) {
	w.Helper()
	w.awaitWithin(patience, what, holds)
}

func (w *world) awaitWithin(limit time.Duration, what string, holds func() bool) {
	w.Helper()
	for end := time.Now().Add(limit); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("waited too long until %s", what)
		}
	}
}

// send feeds an agent until it has all, and feeds it again when the link breaks.
func (w *world) send(ctx context.Context, to string) error {
	source, err := w.source()
	if err != nil {
		return err
	}
	defer source.Close()
	w.sendFrom(ctx, to, &supply{source, uint64(len(w.content))})
	return nil
}

// source returns a file with what is sent.
func (w *world) source() (*os.File, error) {
	name := filepath.Join(w.TempDir(), "source")
	if err := os.WriteFile(name, w.content, 0o600); err != nil {
		return nil, err
	}
	return os.Open(name)
}

func (w *world) sendFrom(ctx context.Context, to string, from link.Supply) {
	sender := identity.ID{Role: identity.Member, Name: "sender"}
	hello := w.hello(w.capability(sender, identity.Send))
	hello.Offer = true
	for ctx.Err() == nil {
		conn, welcome, err := link.Dial(ctx, &net.Dialer{}, w.agents[to].address, w.identity(sender), identity.ID{Role: identity.Agent, Name: to}, hello)
		var refusal *wire.Refusal
		if errors.As(err, &refusal) && refusal.Reason == wire.Done {
			time.Sleep(50 * time.Millisecond) // the agent may want it again
			continue
		}
		if err != nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		_ = link.NewFeeding(ctx, welcome.From, from, link.Options{}).Run(conn)
	}
}

func (w *world) hello(capability []byte) wire.Hello {
	return wire.Hello{
		Stripes: 1, Delivery: w.id, TreeVersion: w.version, Capability: capability,
		Plaintext: w.spec.GetDataPlane() == groupv1.DataPlane_DATA_PLANE_PLAINTEXT,
	}
}

// supply is a file that is sent.
type supply struct {
	file   *os.File
	length uint64
}

func (s *supply) Next(offset, most uint64) (link.Portion, error) {
	switch {
	case offset > s.length:
		return link.Portion{}, &link.Bye{Reason: wire.Protocol, Text: "asked for what is not kept"}
	case offset == s.length:
		return link.Portion{End: &link.End{Length: s.length}, TreeVersion: 1}, nil
	}
	return link.Portion{File: s.file, At: offset, Length: min(most, s.length-offset), TreeVersion: 1}, nil
}

func (s *supply) Sent(uint64, link.Portion)      {}
func (s *supply) Acked(uint64, wire.Level) error { return nil }

// member receives into memory.
type member struct {
	name   string
	pace   time.Duration // per piece that lands
	piece  int64         // bytes at most; zero is 64 KiB
	goesOn chan struct{} // only a first piece is written before it is closed; nil if the member never hangs

	mu      sync.Mutex
	got     bytes.Buffer
	end     *link.End
	changed chan struct{}
}

func newMember(name string) *member { return &member{name: name, changed: make(chan struct{})} }

func (m *member) Section(uint64) (link.Place, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return link.Place{To: m}, cmp.Or(m.piece, 64<<10), nil
}

func (m *member) Write(p []byte) (int, error) {
	m.mu.Lock()
	pace := m.pace
	m.mu.Unlock()
	time.Sleep(pace)
	if m.goesOn != nil && m.has() > 0 {
		<-m.goesOn
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.got.Write(p)
}

// quicken has the member take what comes as fast as it comes.
func (m *member) quicken() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pace, m.piece = 0, 0
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
		if err := link.NewTaking(ctx, hello.From, m, link.Options{}).Run(conn); err != nil {
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
