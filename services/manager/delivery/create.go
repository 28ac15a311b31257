package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/group"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

const (
	// maxRunning is how many deliveries of a group run at once where its policy says nothing.
	maxRunning = 256
	// maxName is how long the name of an object can be, in bytes: as a file's.
	maxName = 255
	// maxMode holds all permission bits of a file.
	maxMode = 0o7777
)

// Create begins a delivery to the members that are joined now.
func (d *Desk) Create(ctx context.Context, caller identity.ID, asked *groupv1.CreateDeliveryRequest) (*groupv1.CreateDeliveryResponse, error) {
	if err := checkSpec(asked.GetSpec()); err != nil {
		return nil, err
	}
	as, err := ledger.Identify(caller, asked.GetRequestId(), asked)
	if err != nil {
		return nil, err
	}
	id, response := ledger.NewID(), new(groupv1.CreateDeliveryResponse)
	release := d.reserve(asked.GetGroup(), id)
	defer release()
	err = d.ledger.Write(ctx, as, response, func() (ledger.Plan, error) {
		c := creation{desk: d, caller: caller, asked: asked, id: id, now: time.Now()}
		return c.plan(response)
	})
	if err != nil {
		return nil, err
	}
	if response.GetDelivery().GetId() == id { // not the answer to an earlier request
		d.metrics.treeChanged(causeCreated)
		d.log.Info("a delivery begins", "delivery", id, "group", asked.GetGroup(), "members", response.GetDelivery().GetMemberCount())
	}
	d.open(ctx, response.GetDelivery().GetId())
	return response, nil
}

// reserve counts a delivery on its way, so that several at the same time cannot
// exceed a group's limit together.
func (d *Desk) reserve(group, id string) (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.creating[id] = group
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.creating, id)
	}
}

// checkSpec says what is wrong with what a sender wants.
func checkSpec(spec *groupv1.DeliverySpec) error {
	var problems ledger.Checks
	checkObjectName(&problems, spec.GetName())
	known := func(field string, value protoreflect.Enum) {
		named := value.Descriptor().Values().ByNumber(value.Number()) != nil
		problems.That(named, field, "%d is no value of %s", value.Number(), value.Descriptor().Name())
	}
	span := func(field string, value *durationpb.Duration, most time.Duration) {
		ok := value == nil || value.CheckValid() == nil && value.AsDuration() >= 0 && (most == 0 || value.AsDuration() <= most)
		want := "nothing negative"
		if most > 0 {
			want = fmt.Sprintf("%v at most, and nothing negative", most)
		}
		problems.That(ok, field, "is %v: want %s", value.AsDuration(), want)
	}
	known("spec.kind", spec.GetKind())
	problems.That(spec.GetKind() != 0, "spec.kind", "is missing: want file, directory or stream")
	known("spec.control_mode", spec.GetControlMode())
	known("spec.ack_level", spec.GetAckLevel())
	known("spec.slow_member.action", spec.GetSlowMember().GetAction())
	known("spec.congestion", spec.GetCongestion())
	span("spec.slow_member.lag_time", spec.GetSlowMember().GetLagTime(), 0)
	span("spec.latency_bound", spec.GetLatencyBound(), 0)
	span("spec.deadline", spec.GetDeadline(), 0)
	span("spec.keep", spec.GetKeep(), group.MaxKeep)
	problems.Rate("spec.max_bytes_per_second", spec.GetMaxBytesPerSecond())
	problems.That(spec.GetMode() <= maxMode, "spec.mode", "%o has more than permission bits", spec.GetMode())
	problems.That(spec.GetLength() == 0 || !spec.GetLengthUnknown(), "spec.length", "is both given and unknown")
	problems.That(spec.GetKind() != groupv1.DeliveryKind_DELIVERY_KIND_STREAM || spec.GetLengthUnknown(), "spec.length_unknown", "a stream's length is not known before its end")
	problems.That(!spec.GetHashed() || spec.GetKind() == groupv1.DeliveryKind_DELIVERY_KIND_DIRECTORY, "spec.hashed", "is only for a directory")
	checkDatagrams(&problems, spec)
	problems.That(spec.GetSourceTime() == nil || spec.GetSourceTime().IsValid(), "spec.source_time", "is no time")
	return problems.Err()
}

// checkObjectName refuses what could be more, or something else, than one file in
// the receiver's directory.
func checkObjectName(problems *ledger.Checks, name string) {
	problems.That(name != "", "spec.name", "is empty")
	problems.That(len(name) <= maxName, "spec.name", "has %d bytes: at most %d", len(name), maxName)
	problems.That(!strings.ContainsAny(name, "/\x00") && name != "." && name != "..", "spec.name", "%.80q is not the name of one file", name)
}

// creation is a delivery that is being created.
type creation struct {
	desk   *Desk
	caller identity.ID
	asked  *groupv1.CreateDeliveryRequest
	id     string
	now    time.Time

	group   view.Group
	policy  *groupv1.Policy
	sender  view.Member
	network placement.Network
}

func (c *creation) plan(response *groupv1.CreateDeliveryResponse) (ledger.Plan, error) {
	if err := c.look(); err != nil {
		return ledger.Plan{}, err
	}
	if err := c.permit(); err != nil {
		return ledger.Plan{}, err
	}
	record := c.record()
	built, err := c.network.Build()
	switch {
	case errors.Is(err, placement.ErrNoAgent):
		return ledger.Plan{}, fmt.Errorf("deliver in group %q: %w", c.asked.GetGroup(), err)
	case err != nil:
		return ledger.Plan{}, fmt.Errorf("deliver in group %q: %w: %w", c.asked.GetGroup(), ErrNoTree, err)
	}
	encoded, err := view.EncodeDelivery(record)
	if err != nil {
		return ledger.Plan{}, err
	}
	changes := new(history)
	changes.because(causeCreated, fmt.Sprintf("%d nodes, %d hops deep", built.Len(), built.Depth()))
	encodedTree, err := encodeWhole(encodeTree(built, 1, nil, changes.after(nil, 1, c.now)), 0)
	if err != nil {
		return ledger.Plan{}, err
	}
	if err := checkRoom(record, len(encoded)+len(encodedTree), c.desk.store.MaxBytes()); err != nil {
		return ledger.Plan{}, err
	}
	if err := c.charge(len(encoded) + len(encodedTree)); err != nil {
		return ledger.Plan{}, err
	}
	response.Delivery = proto.CloneOf(record.GetDelivery())
	response.Delivery.MemberCount, response.Delivery.TreeVersion = uint32(len(record.GetMembers())), 1
	group := c.asked.GetGroup()
	return ledger.Plan{
		Conditions: []store.Cond{
			store.Unchanged(view.GroupKey(group), c.group.Changed),
			store.Unchanged(view.MemberKey(group, c.asked.GetSender()), c.sender.Changed),
			store.Absent(view.DeliveryKey(c.id)),
		},
		Changes: []store.Op{
			store.Put(view.TreeKey(c.id), encodedTree),
			store.Put(view.DeliveryKey(c.id), encoded),
			store.Put(view.RunningKey(group, c.id), nil),
		},
	}, nil
}

// look finds the group, the sender, the receivers and the agents.
func (c *creation) look() error {
	group, message, found := c.desk.view.Group(c.asked.GetGroup())
	if !found {
		return fmt.Errorf("group %q %w", c.asked.GetGroup(), ledger.ErrNotFound)
	}
	c.group, c.policy = group, message.GetPolicy()
	sender, joined := c.desk.view.Member(c.asked.GetGroup(), c.asked.GetSender())
	if !joined || sender.GetIncarnation() != c.asked.GetIncarnation() {
		return fmt.Errorf("deliver as %q in group %q: %w", c.asked.GetSender(), c.asked.GetGroup(), ErrSession)
	}
	c.sender = sender
	c.network = placement.Network{
		Sender: sender.Member, LatencyBound: latencyBound(c.asked.GetSpec(), c.policy), Load: loadOf(c.asked.GetSpec()),
		Measured: c.desk.measured(c.asked.GetGroup(), c.policy),
	}
	for _, member := range c.desk.view.AllMembers(c.asked.GetGroup()) {
		if member.GetName() != sender.GetName() && mayReceive(member) {
			c.network.Receivers = append(c.network.Receivers, member)
		}
	}
	agents := c.desk.agentRecords(c.asked.GetGroup())
	c.network.Agents = slices.DeleteFunc(agents, func(agent *agentv1.Agent) bool { return !c.desk.usable(agent, c.now) })
	isIdle := func(agent *agentv1.Agent) bool { return c.desk.isIdle(agent.GetName(), c.asked.GetGroup(), c.now) }
	if others := slices.DeleteFunc(slices.Clone(c.network.Agents), isIdle); len(others) > 0 {
		c.network.Agents = others
	}
	return nil
}

// permit refuses what the sender's role or the group's limits do not allow, and limits for slow members that would have no effect. Mistakes in
// the request are reported before a lack of receivers, which may pass.
func (c *creation) permit() error {
	group, limits := c.asked.GetGroup(), c.policy.GetLimits()
	if !slices.Contains(c.sender.GetRoles(), groupv1.Role_ROLE_SEND) {
		return fmt.Errorf("deliver as %q in group %q: %w", c.sender.GetName(), group, ErrNoSender)
	}
	asked := c.asked.GetSpec()
	if err := checkSlow(asked.GetSlowMember(), withPolicy(asked, c.policy).GetSlowMember()); err != nil {
		return err
	}
	if len(c.network.Receivers) == 0 {
		return fmt.Errorf("deliver in group %q: %w", group, ErrNoReceivers)
	}
	most := maxRunning
	if limits.GetMaxDeliveries() > 0 {
		most = int(limits.GetMaxDeliveries())
	}
	if running := c.desk.countRunning(group); running > most {
		return fmt.Errorf("deliver in group %q: %w (%d)", group, ErrTooMany, most)
	}
	return checkSize(group, limits, asked.GetLength())
}

func checkSize(group string, limits *groupv1.Limits, length uint64) error {
	if most := limits.GetMaxObjectBytes(); most > 0 && length > most {
		return fmt.Errorf("deliver %d bytes in group %q: %w (%d)", length, group, ErrTooLarge, most)
	}
	return nil
}

// countRunning counts the deliveries of a group that run or are on their way.
func (d *Desk) countRunning(group string) int {
	d.mu.Lock()
	creating := maps.Clone(d.creating)
	d.mu.Unlock()
	running := d.view.RunningDeliveries(group)
	for id, its := range creating {
		if _, shown := d.view.Delivery(id); its == group && !shown {
			running++
		}
	}
	return running
}

// record returns what is stored of the new delivery.
func (c *creation) record() *managerv1.DeliveryRecord {
	record := &managerv1.DeliveryRecord{
		Delivery: &groupv1.Delivery{
			Id: c.id, Group: c.asked.GetGroup(), Sender: c.sender.GetName(), Spec: withPolicy(c.asked.GetSpec(), c.policy),
			State: groupv1.DeliveryState_DELIVERY_STATE_RUNNING, CreateTime: timestamppb.New(c.now),
		},
		GroupIncarnation: c.group.GetIncarnation(), SenderIncarnation: c.sender.GetIncarnation(),
	}
	if earlier := c.desk.versions(c.asked.GetGroup(), c.asked.GetSpec().GetName()); len(earlier) > 0 && !orderTime(earlier[0]).Before(c.now) {
		record.OrderTime = timestamppb.New(orderTime(earlier[0]).Add(1))
	}
	for _, receiver := range c.network.Receivers {
		record.Members = append(record.Members, &managerv1.Participant{Name: receiver.GetName(), Incarnation: receiver.GetIncarnation()})
	}
	return record
}

// withPolicy returns the spec with what it leaves open decided by the group's policy.
func withPolicy(spec *groupv1.DeliverySpec, policy *groupv1.Policy) *groupv1.DeliverySpec {
	decided := proto.CloneOf(spec)
	if decided.GetControlMode() == groupv1.ControlMode_CONTROL_MODE_UNSPECIFIED {
		decided.ControlMode = policy.GetControlMode()
	}
	if decided.GetAckLevel() == groupv1.AckLevel_ACK_LEVEL_UNSPECIFIED {
		decided.AckLevel = policy.GetAckLevel()
	}
	decided.SlowMember = mergeSlow(spec.GetSlowMember(), slowMember(decided.GetControlMode(), policy))
	if decided.GetCongestion() == groupv1.Congestion_CONGESTION_UNSPECIFIED {
		decided.Congestion = policy.GetCongestion()
	}
	if decided.GetKeep().AsDuration() == 0 {
		decided.Keep = durationpb.New(cmp.Or(policy.GetKeep().AsDuration(), keepDefault))
	}
	if decided.GetDeadline().AsDuration() == 0 && decided.GetKind() != groupv1.DeliveryKind_DELIVERY_KIND_STREAM {
		decided.Deadline = policy.GetDeadline()
	}
	if most := policy.GetLimits().GetMaxBytesPerSecond(); most > 0 && (decided.GetMaxBytesPerSecond() == 0 || decided.GetMaxBytesPerSecond() > most) {
		decided.MaxBytesPerSecond = most
	}
	decided.DataPlane = policy.GetDataPlane()
	if decided.GetDataPlane() == groupv1.DataPlane_DATA_PLANE_UNSPECIFIED {
		decided.DataPlane = groupv1.DataPlane_DATA_PLANE_TLS
	}
	return decided
}

// slowMember returns the group's policy for slow members. Where that is merely the
// default of the group's own control mode, another mode gets its own default.
func slowMember(mode groupv1.ControlMode, policy *groupv1.Policy) *groupv1.SlowMemberPolicy {
	slow := policy.GetSlowMember()
	if mode != policy.GetControlMode() && proto.Equal(slow, slowDefault(policy.GetControlMode())) {
		return slowDefault(mode)
	}
	return slow
}

// mergeSlow returns how a delivery treats slow members. The group's limits fill in those that the delivery leaves open, unless it asks for
// another action than the group's.
func mergeSlow(asked, group *groupv1.SlowMemberPolicy) *groupv1.SlowMemberPolicy {
	merged := cmp.Or(proto.CloneOf(group), &groupv1.SlowMemberPolicy{})
	if action := asked.GetAction(); action != groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_UNSPECIFIED && action != group.GetAction() {
		merged = &groupv1.SlowMemberPolicy{Action: action}
	}
	merged.FloorBytesPerSecond = cmp.Or(asked.GetFloorBytesPerSecond(), merged.GetFloorBytesPerSecond())
	merged.LagBytes = cmp.Or(asked.GetLagBytes(), merged.GetLagBytes())
	if asked.GetLagTime().AsDuration() > 0 {
		merged.LagTime = asked.GetLagTime()
	}
	return merged
}

// checkSlow refuses limits for slow members that a delivery asks for and that would have no effect.
func checkSlow(asked, merged *groupv1.SlowMemberPolicy) error {
	var problems ledger.Checks
	group.CheckSlow(&problems, "spec.slow_member", asked, merged)
	return problems.Err()
}

// slowDefault returns what happens to slow members where nobody decided. In end-to-end mode the cache is bounded, and cannot feed a member that
// lags for long.
func slowDefault(mode groupv1.ControlMode) *groupv1.SlowMemberPolicy {
	action := groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_DETACH
	if mode == groupv1.ControlMode_CONTROL_MODE_END_TO_END {
		action = groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_PACE
	}
	return &groupv1.SlowMemberPolicy{Action: action}
}
