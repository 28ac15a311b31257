package manager_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// node is a member or an agent as the manager sees it: it does as it is told, and reports what the test has it report.
type node struct {
	name   string
	stop   context.CancelFunc
	ended  chan error
	member *groupv1.Member
	link   *uplink.Uplink
	config sdk.Config
	// distance is what the node says its round trip to an agent is; nil measures nothing.
	distance func(agent string) time.Duration

	mu       sync.Mutex
	begun    bool // the first list has come
	assigned map[string]*groupv1.Assignment
	dropped  map[string]bool
	pushed   map[string]time.Time
	reports  map[string]*groupv1.DeliveryReport
	measured []*groupv1.RoundTrip
	reporter bool // it has reported what it measured
	surveyed bool // and its report was answered
	changed  chan struct{}
	wake     chan struct{}
}

func newNode(name string) *node {
	return &node{
		name: name, ended: make(chan error, 1), assigned: make(map[string]*groupv1.Assignment), dropped: make(map[string]bool),
		pushed:  make(map[string]time.Time),
		reports: make(map[string]*groupv1.DeliveryReport), changed: make(chan struct{}), wake: make(chan struct{}, 1),
	}
}

func (n *node) attendance() *uplink.Attendance {
	return &uplink.Attendance{Reports: n.reported, Assign: n.assign, Wake: n.wake, Measure: n.measure, RoundTrips: n.roundTrips}
}

func (n *node) measure(measuring *groupv1.Measuring) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.surveyed = n.reporter
	for _, agent := range measuring.GetAgents() {
		if n.distance != nil {
			n.measured = append(n.measured, &groupv1.RoundTrip{Agent: agent.GetName(), Time: durationpb.New(n.distance(agent.GetName()))})
		}
	}
}

func (n *node) roundTrips() (measured []*groupv1.RoundTrip) {
	n.mu.Lock()
	defer n.mu.Unlock()
	measured, n.measured = n.measured, nil
	n.reporter = n.reporter || len(measured) > 0
	return measured
}

func (n *node) reported() (reports []*groupv1.DeliveryReport) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, report := range n.reports {
		reports = append(reports, proto.CloneOf(report))
	}
	return reports
}

func (n *node) assign(assignments *groupv1.Assignments) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if assignments.GetComplete() {
		clear(n.assigned)
	}
	n.begun = true
	for _, assignment := range assignments.GetCurrent() {
		n.assigned[assignment.GetDelivery()] = assignment
		n.pushed[assignment.GetDelivery()] = time.Now()
	}
	for _, id := range assignments.GetDropped() {
		delete(n.assigned, id)
		n.dropped[id] = true
	}
	close(n.changed)
	n.changed = make(chan struct{})
}

// report has the node report how a delivery stands, now and from now on.
func (n *node) report(report *groupv1.DeliveryReport) {
	n.mu.Lock()
	n.reports[report.GetDelivery()] = report
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// has waits until the node's assignment in a delivery is as it should be.
func (n *node) has(t *testing.T, delivery, what string, is func(*groupv1.Assignment) bool) *groupv1.Assignment {
	t.Helper()
	return told(t, 15*time.Second, is, func() (*groupv1.Assignment, <-chan struct{}) {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.assigned[delivery], n.changed
	}, func(last *groupv1.Assignment) string { return fmt.Sprintf("%s: not %s: %v", n.name, what, last) })
}

// told waits until what a node is told is as it should be; complain says what it is instead.
func told[T any](t *testing.T, patience time.Duration, is func(T) bool, look func() (T, <-chan struct{}), complain func(T) string) T {
	t.Helper()
	deadline := time.After(patience)
	for {
		now, changed := look()
		if is(now) {
			return now
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatal(complain(now))
		}
	}
}

// party is a group in which deliveries are made.
type party struct {
	config     sdk.Config
	link       *uplink.Uplink // an operator's
	groups     groupv1.GroupServiceClient
	sessions   groupv1.SessionServiceClient
	deliveries groupv1.DeliveryServiceClient
	enroll     func(name string) sdk.Config
	running    sync.WaitGroup
}

const partyGroup = "models"

// newParty makes the group. Its members act through an operator's connection.
func newParty(t *testing.T, config sdk.Config, policy *groupv1.Policy) *party {
	t.Helper()
	p := &party{config: config, link: managertest.Dial(t, config)}
	p.groups, p.sessions = groupv1.NewGroupServiceClient(p.link), groupv1.NewSessionServiceClient(p.link)
	p.deliveries = groupv1.NewDeliveryServiceClient(p.link)
	p.enroll = func(name string) sdk.Config { return letIn(t, config, "agent", name) }
	if _, err := p.groups.CreateGroup(t.Context(), &groupv1.CreateGroupRequest{Name: partyGroup, Policy: policy}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.running.Wait)
	return p
}

// letIn gives an identity to a role and a name by an operator's connection; to a member, for some groups.
func letIn(t *testing.T, operator sdk.Config, role, name string, groups ...string) sdk.Config {
	t.Helper()
	text, _, err := dial(t, operator).CreateToken(t.Context(), sdk.Token{Role: role, Name: name, Groups: groups})
	if err != nil {
		t.Fatal(err)
	}
	own := sdk.Config{Endpoints: operator.Endpoints, TrustDomain: operator.TrustDomain, CredentialsDir: t.TempDir()}
	if _, err := sdk.Enroll(t.Context(), own, text); err != nil {
		t.Fatal(err)
	}
	return own
}

// startParty makes a manager with a group.
func startParty(t *testing.T) (*managertest.Manager, *party) {
	t.Helper()
	m := managertest.Start(t)
	return m, newParty(t, mustRead(t, m.Access), nil)
}

// agent starts an agent, and waits until the manager knows it.
func (p *party) agent(t *testing.T, name, machine, zone string) *node {
	t.Helper()
	return p.agentAt(t, name, machine, zone, nil)
}

// agentAt is agent with what it measures.
func (p *party) agentAt(t *testing.T, name, machine, zone string, distance func(agent string) time.Duration) *node {
	t.Helper()
	n := newNode(name)
	n.config, n.distance = p.enroll(name), distance
	p.register(t, n, machine, zone)
	return n
}

func (p *party) register(t *testing.T, n *node, machine, zone string) {
	t.Helper()
	n.link = managertest.Dial(t, n.config)
	ctx, cancel := context.WithCancel(context.Background())
	n.restart(cancel)
	t.Cleanup(cancel)
	registration := &agentv1.Registration{
		Node: machine, Zone: zone, Addresses: []string{n.name + ".example:7410"},
		Capacity: &agentv1.Capacity{UplinkBytesPerSecond: 100},
	}
	link, ended := n.link, n.ended
	p.running.Go(func() {
		ended <- link.Register(ctx, registration, func() *agentv1.Report { return new(agentv1.Report) }, n.attendance())
	})
	n.attached(t)
}

func (n *node) restart(stop context.CancelFunc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stop, n.ended, n.begun = stop, make(chan error, 1), false
}

// attached waits until the node was told what it has to do.
func (n *node) attached(t *testing.T) {
	t.Helper()
	eventually(t, 30*time.Second, n.name+" is attached", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.begun
	})
}

// join has a member join, and waits until it attends.
func (p *party) join(t *testing.T, name, machine string, roles ...groupv1.Role) *node {
	t.Helper()
	return p.joinAt(t, name, machine, nil, roles...)
}

// joinAt is join with what the member measures.
func (p *party) joinAt(t *testing.T, name, machine string, distance func(agent string) time.Duration, roles ...groupv1.Role) *node {
	t.Helper()
	n := newNode(name)
	n.distance = distance
	p.rejoin(t, n, machine, roles...)
	return n
}

func (p *party) rejoin(t *testing.T, n *node, machine string, roles ...groupv1.Role) {
	t.Helper()
	answer, err := p.sessions.Join(t.Context(), &groupv1.JoinRequest{Group: partyGroup, Name: n.name, Node: machine, Roles: roles})
	if err != nil {
		t.Fatal(err)
	}
	n.member = answer.GetMember()
	ctx, cancel := context.WithCancel(context.Background())
	n.restart(cancel)
	t.Cleanup(cancel)
	ended := n.ended
	p.running.Go(func() {
		ended <- p.link.Keep(ctx, answer.GetMember(), answer.GetHeartbeatInterval().AsDuration(), n.attendance())
	})
	n.attached(t)
}

func (p *party) leave(t *testing.T, n *node) {
	t.Helper()
	n.stop()
	<-n.ended
	if _, err := p.sessions.Leave(t.Context(), &groupv1.LeaveRequest{Group: partyGroup, Name: n.name}); err != nil {
		t.Fatal(err)
	}
}

// file is the spec of a file.
func file(length uint64) *groupv1.DeliverySpec {
	return &groupv1.DeliverySpec{Name: "weights.bin", Kind: groupv1.DeliveryKind_DELIVERY_KIND_FILE, Length: length, Mode: 0o644}
}

func (p *party) create(t *testing.T, sender *node, spec *groupv1.DeliverySpec) string {
	t.Helper()
	answer, err := p.tryCreate(t, sender, spec)
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetId()
}

func (p *party) tryCreate(t *testing.T, sender *node, spec *groupv1.DeliverySpec) (*groupv1.Delivery, error) {
	t.Helper()
	answer, err := p.deliveries.CreateDelivery(t.Context(), &groupv1.CreateDeliveryRequest{
		Group: partyGroup, Sender: sender.name, Incarnation: sender.member.GetIncarnation(), Spec: spec,
	})
	return answer.GetDelivery(), err
}

func root(of byte) []byte {
	r := make([]byte, 32)
	r[0] = of
	return r
}

func (p *party) seal(t *testing.T, sender *node, delivery string, length uint64) {
	t.Helper()
	_, err := p.deliveries.SealDelivery(t.Context(), &groupv1.SealDeliveryRequest{
		Delivery: delivery, Sender: sender.name, Incarnation: sender.member.GetIncarnation(), Length: length, Root: root(1),
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (p *party) complete(t *testing.T, n *node, delivery string, length uint64) error {
	t.Helper()
	_, err := p.deliveries.RecordReceipt(t.Context(), &groupv1.RecordReceiptRequest{
		Delivery: delivery, Member: n.name, Incarnation: n.member.GetIncarnation(),
		State: groupv1.ReceiptState_RECEIPT_STATE_COMPLETE, Bytes: length, Root: root(1),
	})
	return err
}

func (p *party) mustComplete(t *testing.T, n *node, delivery string, length uint64) {
	t.Helper()
	if err := p.complete(t, n, delivery, length); err != nil {
		t.Fatalf("receipt of %s: %v", n.name, err)
	}
}

func (p *party) get(t *testing.T, delivery string) *groupv1.Delivery {
	t.Helper()
	answer, err := p.deliveries.GetDelivery(t.Context(), &groupv1.GetDeliveryRequest{Delivery: delivery})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetDelivery()
}

// becomes watches a delivery until it is as it should be.
func (p *party) becomes(t *testing.T, delivery, what string, within time.Duration, is func(*groupv1.Delivery) bool) *groupv1.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	var last *groupv1.Delivery
	for ctx.Err() == nil {
		stream, err := p.deliveries.WatchDelivery(ctx, &groupv1.WatchDeliveryRequest{Delivery: delivery})
		if err != nil {
			continue
		}
		for {
			message, err := stream.Recv()
			if err != nil {
				break
			}
			if message.GetDelivery() == nil {
				continue
			}
			if last = message.GetDelivery(); is(last) {
				return last
			}
		}
		select { // it has ended, or the leader has changed
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatalf("delivery %s: not %s within %v: %v", delivery, what, within, last)
	return nil
}

func ended(state groupv1.DeliveryState) func(*groupv1.Delivery) bool {
	return func(d *groupv1.Delivery) bool { return d.GetState() == state }
}

func receipt(d *groupv1.Delivery, member string) *groupv1.Receipt {
	for _, r := range d.GetReceipts() {
		if r.GetMember() == member {
			return r
		}
	}
	return nil
}

func fedBy(parent string) func(*groupv1.Assignment) bool {
	return func(a *groupv1.Assignment) bool { return a.GetParent().GetName() == parent }
}

func children(names ...string) func(*groupv1.Assignment) bool {
	return func(a *groupv1.Assignment) bool {
		var got []string
		for _, child := range a.GetChildren() {
			got = append(got, child.GetName())
		}
		return a != nil && fmt.Sprint(got) == fmt.Sprint(names)
	}
}

const (
	send       = groupv1.Role_ROLE_SEND
	receiveToo = groupv1.Role_ROLE_RECEIVE
)

// checkCapability checks what a node was given to prove its duty with.
func checkCapability(t *testing.T, p *party, a *groupv1.Assignment, role identity.Role, name string) {
	t.Helper()
	held, err := identity.FilesIn(p.config.CredentialsDir).Credentials()
	if err != nil {
		t.Fatal(err)
	}
	c, err := identity.CheckCapability(a.GetCapability(), held.Roots, p.config.TrustDomain, p.link.Clock().Now())
	if err != nil {
		t.Fatalf("capability of %s: %v", name, err)
	}
	if err := c.Permits(identity.ID{Role: role, Name: name}, partyGroup, a.GetDelivery(), identity.Duty(a.GetDuty())); err != nil {
		t.Errorf("capability of %s: %v", name, err)
	}
	if left := time.Until(c.Expires); left < 10*time.Minute {
		t.Errorf("capability of %s: %v left, want 10 minutes at least", name, left)
	}
}
