package sim

import (
	"context"
	"encoding/hex"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/uplink"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
	"github.com/groupcast/groupcast/sdk"
)

// idler is an agent with a valid identity that claims to be next to everybody, opens every link, and
// moves no byte, like one whose disk hangs. It also asks nodes that are not to feed it, even its own
// children, to do so, and offers them what it does not have.
type idler struct {
	*uplink.Uplink
	modest   bool // it claims nothing about how near it is
	mu       sync.Mutex
	claims   []*groupv1.RoundTrip
	assigned map[string]*groupv1.Assignment
	parents  map[feeding]bool // the agents that were to feed it at any time
	served   map[feeding]bool // of the agents that it asked, those that were ready to feed it
}

// feeding means that an agent feeds the idler in a delivery.
type feeding struct{ delivery, agent string }

func (i *idler) Next(uint64, uint64) (link.Portion, error)                { return link.Portion{}, nil }
func (i *idler) Sent(uint64, link.Portion)                                {}
func (i *idler) Acked(uint64, wire.Level) error                           { return nil }
func (i *idler) Section(uint64) (place link.Place, room int64, err error) { return place, 0, nil }
func (i *idler) Landed(uint64) error                                      { return nil }
func (i *idler) End(link.End) error                                       { return nil }
func (i *idler) Answer() link.Answer                                      { return link.Answer{} }

func (i *idler) measure(measuring *groupv1.Measuring) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.modest {
		return
	}
	for _, agent := range measuring.GetAgents() {
		i.claims = append(i.claims, &groupv1.RoundTrip{Agent: agent.GetName(), Time: durationpb.New(time.Microsecond)})
	}
}

func (i *idler) roundTrips() (claims []*groupv1.RoundTrip) {
	i.mu.Lock()
	defer i.mu.Unlock()
	claims, i.claims = i.claims, nil
	return claims
}

func (i *idler) assign(all *groupv1.Assignments) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if all.GetComplete() {
		clear(i.assigned)
	}
	for _, assignment := range all.GetCurrent() {
		i.assigned[assignment.GetDelivery()] = assignment
		i.parents[feeding{assignment.GetDelivery(), assignment.GetParent().GetName()}] = true
	}
}

// intrude asks agents again and again for deliveries in which they do not feed it, and offers these to them.
func (i *idler) intrude(ctx context.Context, on link.Dialer, agents []place) {
	for ; ctx.Err() == nil; _ = wait(ctx, time.Second) {
		i.mu.Lock()
		assigned := slices.Collect(maps.Values(i.assigned))
		i.mu.Unlock()
		for _, assignment := range assigned {
			for _, agent := range agents {
				i.ask(ctx, on, agent.name, assignment, false)
				i.ask(ctx, on, agent.name, assignment, true)
			}
		}
	}
}

func (i *idler) ask(ctx context.Context, on link.Dialer, agent string, assignment *groupv1.Assignment, offer bool) {
	id, _ := hex.DecodeString(assignment.GetDelivery())
	hello := wire.Hello{
		Stripes: 1, Delivery: wire.DeliveryID(id), TreeVersion: assignment.GetTreeVersion(), Offer: offer, Capability: assignment.GetCapability(),
		Plaintext: assignment.GetSpec().GetDataPlane() == groupv1.DataPlane_DATA_PLANE_PLAINTEXT,
	}
	conn, _, err := link.Dial(ctx, on, agent+":7410", i.Security(), identity.ID{Role: identity.Agent, Name: agent}, hello)
	if err != nil {
		return
	}
	conn.Close()
	if offer {
		agent += ", to which it offered"
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.served[feeding{assignment.GetDelivery(), agent}] = true
}

// check checks that only nodes that were told that it is their neighbour took it for one. It returns how often these did: what it
// says is what a neighbour does.
func (i *idler) check(t testing.TB) (welcome int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for by := range i.served {
		if i.parents[by] {
			welcome++
			continue
		}
		t.Errorf("delivery %s: it was served by %s, which was not its parent at any time", by.delivery, by.agent)
	}
	return welcome
}

// reports says of each delivery that its children are there, and that nothing has come.
func (i *idler) reports() (all []*groupv1.DeliveryReport) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for id, assignment := range i.assigned {
		report := &groupv1.DeliveryReport{Delivery: id, TreeVersion: assignment.GetTreeVersion()}
		for _, child := range assignment.GetChildren() {
			report.Children = append(report.Children, &groupv1.ChildReport{Name: child.GetName(), Connected: true})
		}
		all = append(all, report)
	}
	return all
}

// keep keeps a link that was opened for as long as the other end does.
func (i *idler) keep(ctx context.Context, raw net.Conn) {
	asked, err := link.Accept(ctx, raw, i.Security())
	if err != nil {
		return
	}
	conn, err := asked.Welcome(wire.Welcome{From: asked.From})
	switch {
	case err != nil:
	case asked.Offer:
		_ = link.NewTaking(ctx, asked.From, i, link.Options{}).Run(conn)
	default:
		_ = link.NewFeeding(ctx, asked.From, i, link.Options{}).Run(conn)
	}
}

// startIdler runs an idler on a host of its name.
func (w *world) startIdler(at place) { w.startIntruder(at, false) }

func (w *world) startIntruder(at place, modest bool) {
	access := w.enroll("agent", at.name)
	w.start(at.name, func(ctx context.Context, on *life) error {
		managers, err := uplink.Dial(access, w.log.With("host", at.name), grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
			return on.DialContext(ctx, "tcp", to)
		}))
		if err != nil {
			return err
		}
		defer managers.Close()
		i := &idler{
			Uplink: managers, modest: modest, assigned: make(map[string]*groupv1.Assignment), parents: make(map[feeding]bool), served: make(map[feeding]bool),
		}
		defer func() { w.welcome.Add(int64(i.check(w))) }()
		listener, err := on.Listen("tcp", at.name+":7410")
		if err != nil {
			return err
		}
		var links sync.WaitGroup
		defer links.Wait()
		defer listener.Close()
		links.Go(func() { i.intrude(ctx, on, w.agents) })
		links.Go(func() {
			for raw, err := listener.Accept(); err == nil; raw, err = listener.Accept() {
				links.Go(func() { i.keep(ctx, raw) })
			}
		})
		registration := &agentv1.Registration{Node: at.node, Zone: at.zone, Addresses: []string{at.name + ":7410"}, Capacity: new(agentv1.Capacity)}
		if !modest {
			registration.Capacity.UplinkBytesPerSecond = 1 << 50
		}
		attendance := &uplink.Attendance{Reports: i.reports, Assign: i.assign, Measure: i.measure, RoundTrips: i.roundTrips}
		return managers.Register(ctx, registration, func() *agentv1.Report { return new(agentv1.Report) }, attendance)
	})
}

// An agent that attracts nodes and then gives them nothing is taken out of the tree: it lives, and
// so do its links, but no byte moves there.
func TestAgentThatMovesNothing(t *testing.T) {
	for name, nodes := range map[string][]string{
		"between agents and a member": {"idle", "a1", "a2"},
		"first":                       {senderHost, "idle", "idle"},
	} {
		t.Run(name, func(t *testing.T) {
			s := scenario{
				agents:     []place{{"a1", "a1", "x", 16 << 20}, {"a2", "a2", "y", 16 << 20}},
				policy:     sdk.Policy{ControlMode: sdk.Hop},
				deliveries: []parcel{{name: "object-0", size: 4 << 20}},
			}
			for i, node := range nodes {
				s.receivers = append(s.receivers, place{name: []string{"r1", "r2", "r3"}[i], node: node})
			}
			inWorld(t, s, func(*world) {}, func(w *world) {
				w.startIdler(place{"idle", "idle", "x", 1})
				time.Sleep(10 * time.Second) // until all have measured it
				ended := w.slowly(40*time.Second, func() {})
				if last := ended.TreeChanges[len(ended.TreeChanges)-1]; last.Cause != "agent_idle" {
					t.Errorf("the tree's changes: %+v", ended.TreeChanges)
				}
				synctest.Wait() // nobody looks for the first object by its name any more
				w.deliveries[0].name = "object-1"
				if again := w.slowly(30*time.Second, func() {}); len(again.TreeChanges) != 1 {
					t.Errorf("of the next delivery, too, the tree has changed: %+v", again.TreeChanges)
				}
				w.programs["idle"].stop()
				w.isOver(w.programs["idle"])
			})
		})
	}
}

// The intruder talks like a neighbour: the agent that is to feed it welcomes it, and no other does.
func TestIntruderIsWelcomeWhereItIsFed(t *testing.T) {
	s := scenario{
		agents:     []place{{"a1", senderHost, "x", 16 << 20}, {"a2", "a2", "z", 16 << 20}},
		receivers:  []place{{name: "r1", node: senderHost}, {name: "r2", node: "idle"}, {name: "r3", node: "a2"}},
		policy:     sdk.Policy{ControlMode: sdk.Hop},
		deliveries: []parcel{{name: "object-0", size: 4 << 20}},
	}
	inWorld(t, s, func(*world) {}, func(w *world) {
		w.startIntruder(place{"idle", "idle", "y", 1}, true)
		time.Sleep(10 * time.Second)
		ended := w.slowly(40*time.Second, func() {})
		w.programs["idle"].stop()
		w.isOver(w.programs["idle"])
		if w.welcome.Load() == 0 {
			t.Errorf("it was welcome nowhere: %+v", ended.TreeChanges)
		}
	})
}

// If little comes, or nothing for a while, no agent is blamed for that.
func TestSlowSenderMakesNoAgentIdle(t *testing.T) {
	s := scenario{
		agents:     []place{{"a1", "a1", "x", 16 << 20}, {"a2", "a2", "x", 16 << 20}},
		receivers:  []place{{name: "r1", node: "a1"}, {name: "r2", node: "a2"}},
		policy:     sdk.Policy{ControlMode: sdk.Hop},
		deliveries: []parcel{{name: "object-0", size: 256 << 10}},
	}
	inWorld(t, s, func(*world) {}, func(w *world) {
		out, err := w.sending.Send(context.Background(), w.write(s.deliveries[0]), sdk.SendOptions{MaxBytesPerSecond: 4 << 10})
		w.must(err)
		ended := w.awaitEnd(out.ID(), 10*time.Minute)
		w.checkOutcome(s.deliveries[0], ended)
		if len(ended.TreeChanges) != 1 {
			t.Errorf("the tree changed: %+v", ended.TreeChanges)
		}
	})
}

// A member that cannot reach an agent which also feeds others is fed by another agent; the first one keeps those others.
func TestUnfedMemberGoesElsewhere(t *testing.T) {
	for _, mode := range []sdk.ControlMode{sdk.Hop, sdk.EndToEnd} {
		t.Run(string(mode), func(t *testing.T) {
			s := scenario{
				agents:     []place{{"a1", "a1", "x", 16 << 20}, {"a2", "a2", "y", 16 << 20}},
				receivers:  []place{{name: "r1", node: "a1"}, {name: "r2", node: "a1"}, {name: "r3", node: "a2"}},
				policy:     sdk.Policy{ControlMode: mode, SlowMember: sdk.SlowMember{Action: sdk.Detach}},
				deliveries: []parcel{{name: "object-0", size: 8 << 20}},
			}
			inWorld(t, s, func(*world) {}, func(w *world) {
				ended := w.slowly(2*time.Minute, func() {
					time.Sleep(20 * time.Second)
					w.network.Narrow("a1", "r2")
				})
				if len(ended.TreeChanges) < 2 || ended.TreeChanges[1].Cause != "member_unfed" {
					t.Errorf("the tree's changes: %+v", ended.TreeChanges)
				}
				if len(ended.TreeChanges) > 6 {
					t.Errorf("%d changes of the tree: %+v", len(ended.TreeChanges), ended.TreeChanges)
				}
			})
		})
	}
}
