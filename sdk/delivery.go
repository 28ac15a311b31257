package sdk

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/object"
)

// DeliveryKind says what is delivered.
type DeliveryKind string

// The kinds.
const (
	File      DeliveryKind = "file"
	Directory DeliveryKind = "directory"
	Stream    DeliveryKind = "stream"
)

// DeliveryState is where a delivery is in its life.
type DeliveryState string

// The states.
const (
	DeliveryRunning  DeliveryState = "running"
	DeliveryComplete DeliveryState = "complete"
	// DeliveryPartial has ended, and some members of those at its start have it.
	DeliveryPartial DeliveryState = "partial"
	DeliveryFailed  DeliveryState = "failed"
)

// ReceiptState says what is known of a delivery at one member.
type ReceiptState string

// The states of receipts.
const (
	ReceiptReceiving ReceiptState = "receiving"
	ReceiptComplete  ReceiptState = "complete"
	ReceiptFailed    ReceiptState = "failed"
	// ReceiptUnknown is that of a member that is not heard of: it may or may not have all.
	ReceiptUnknown ReceiptState = "unknown"
)

// Receipt is what is known of a delivery at one member.
type Receipt struct {
	Member string
	State  ReceiptState
	// Reason is why it failed: sender_lost, source_changed, canceled, deadline, slow,
	// left, no_room, damaged, refused, superseded, no_path or failed. Detail says it for people.
	Reason, Detail string
	// Bytes is how much the member has, as it said last, or as it acknowledged to the agent that feeds it. If the delivery was ended
	// elsewhere, as by a cancel, it may have some more. A failed one can go on from there. BytesUnknown says that nobody knows: the
	// member has said nothing since another manager leads.
	Bytes        uint64
	BytesUnknown bool
	// Late says that the member joined after the start: the outcome does not depend on it.
	Late bool
	// Changed is when the state became unknown, or final.
	Changed time.Time
	Elapsed time.Duration
	// Stretch is the member's time divided by the time that the sender took to send.
	Stretch float64
	// Parent is who feeds it.
	Parent string
	// Datagrams is its account of a stream in datagrams; nil for all else.
	Datagrams *DatagramCounts
}

// LinkUse is what one link of a delivery's tree carried.
type LinkUse struct {
	From, To       string
	Bytes          uint64
	BytesPerSecond uint64
	// Stripes is how many connections it is made of; StripesReason and StripesWhy say why, in a word and in a sentence. These are
	// empty for a link that may only have one.
	Stripes                   int
	StripesReason, StripesWhy string
	// Datagrams is of a stream in datagrams; nil for all else.
	Datagrams *DatagramUse
}

// CacheUse is what one agent cached of a delivery that somebody had not acknowledged.
type CacheUse struct {
	Agent           string
	Bytes, MaxBytes uint64
	// Ratio is that at its highest, divided by what was sent.
	Ratio float64
	// Keeps says that it has all of the object, so that members that join late can have it from there.
	Keeps bool
}

// Measurements are those of the paper on split connections.
type Measurements struct {
	// SendBytesPerSecond is the rate at which the sender sent: not what all had already.
	SendBytesPerSecond uint64
	// ReceptionBytesPerSecond is the rate of the slowest member; 0 if nothing was sent, or if not all members have it in the end.
	ReceptionBytesPerSecond uint64
	// EffectiveThroughput is the reception rate divided by the sender's.
	EffectiveThroughput float64
	Links               []LinkUse
	Caches              []CacheUse
	// Settled says that this will not change any more: all agents have reported. Some do so a moment after the delivery has ended.
	Settled bool
	// CarriedBytes is how much the sender's links carried: less than SentBytes where all had a part already, more where it was sent twice.
	CarriedBytes uint64
}

// Delivery is one sender's bytes to the members of a group.
type Delivery struct {
	ID, Group, Sender string
	Name              string
	Kind              DeliveryKind
	ControlMode       ControlMode
	AckLevel          AckLevel
	State             DeliveryState
	// Length is known from the start, except for streams.
	Length  uint64
	Sealed  bool
	Root    []byte
	Created time.Time
	// Ended is zero while it runs.
	Ended       time.Time
	TreeVersion uint64
	// SentBytes is up to where the sender is: it has sent all before, or members had it.
	SentBytes uint64
	// Members is how many were joined at the start, Complete and Failed how many of them ended that way.
	Members, Complete, Failed int
	// Receipts are in the order of the members' names; lists have none.
	Receipts     []Receipt
	Measurements Measurements
	// Reason is why it ended before it was done; empty otherwise.
	Reason string
	// Tree is who feeds whom: the sender first, and each node after its parent. TreeChanges has the latest last, TreeClusters is
	// ordered by name. All three are empty in lists, in what WatchDelivery and Outgoing yield, and once nobody is fed any more.
	Tree         []TreeNode
	TreeChanges  []TreeChange
	TreeClusters []TreeCluster
	// Datagrams is how many datagrams a stream in datagrams had, once it is sealed.
	Datagrams uint64
	// InDatagrams says that the stream goes in datagrams.
	InDatagrams bool
	// Changes says that members are sent what they lack of a directory: see OpenChanges.
	Changes bool
	// LeftOut names what is missing here because it would be more than a message, or the managers' store, takes, as in a delivery to
	// thousands of members: links, tree, details, late receipts (of members that came late and are done) or receipts. Counts and measurements are those of all.
	LeftOut []string
	wire
}

// TreeNode is where a member or an agent sits in a delivery's tree.
type TreeNode struct {
	// ID is member/NAME or agent/NAME, and Parent that of the node that feeds it.
	ID, Parent string
	Cluster    string
	// Why says why it sits there, for people.
	Why            string
	Bytes          uint64
	BytesPerSecond uint64
	// Absent says that it is expected back, and feeds nobody for now.
	Absent bool
}

// TreeCluster is a part of a delivery's tree whose nodes are near each other. The one without a name has the nodes of which nobody
// knows where they are.
type TreeCluster struct {
	Name            string
	Agents, Members int
	// Entered is how many of its nodes are fed from outside of it.
	Entered int
	// Directives is how many directives its nodes got from the manager that leads: one each to begin with.
	Directives uint64
}

// TreeChange is one change of a delivery's tree.
type TreeChange struct {
	Version uint64
	Time    time.Time
	Cause   string
	Detail  string
}

func newDelivery(m *groupv1.Delivery) Delivery {
	d := Delivery{
		ID: m.GetId(), Group: m.GetGroup(), Sender: m.GetSender(), Name: m.GetSpec().GetName(),
		Kind:        name[DeliveryKind](m.GetSpec().GetKind()),
		ControlMode: name[ControlMode](m.GetSpec().GetControlMode()), AckLevel: name[AckLevel](m.GetSpec().GetAckLevel()),
		State: name[DeliveryState](m.GetState()), Length: m.GetSpec().GetLength(), Sealed: m.GetSealed(), Root: m.GetRoot(),
		Created: m.GetCreateTime().AsTime(), TreeVersion: m.GetTreeVersion(), SentBytes: m.GetSentBytes(),
		Members: int(m.GetMemberCount()), Complete: int(m.GetCompleteCount()), Failed: int(m.GetFailedCount()),
		Receipts: convert(m.GetReceipts(), newReceipt), Measurements: newMeasurements(m.GetMeasurements()),
		Reason: m.GetReason(), Datagrams: m.GetDatagrams(), InDatagrams: m.GetSpec().GetDatagrams() != nil, Changes: m.GetSpec().GetHashed(), LeftOut: m.GetLeftOut(), wire: wire{m},
		Tree: convert(m.GetTree(), func(n *groupv1.TreeNode) TreeNode {
			return TreeNode{n.GetId(), n.GetParent(), n.GetCluster(), n.GetWhy(), n.GetBytes(), n.GetBytesPerSecond(), n.GetAbsent()}
		}),
		TreeChanges: convert(m.GetTreeChanges(), func(c *groupv1.TreeChange) TreeChange {
			return TreeChange{c.GetVersion(), c.GetTime().AsTime(), c.GetCause(), c.GetDetail()}
		}),
		TreeClusters: convert(m.GetTreeClusters(), func(c *groupv1.TreeCluster) TreeCluster {
			return TreeCluster{c.GetName(), int(c.GetAgents()), int(c.GetMembers()), int(c.GetEntered()), c.GetDirectives()}
		}),
	}
	if m.GetSealed() {
		d.Length = m.GetLength()
	}
	if m.GetEndTime() != nil {
		d.Ended = m.GetEndTime().AsTime()
	}
	return d
}

func newReceipt(m *groupv1.Receipt) Receipt {
	r := Receipt{
		Member: m.GetMember(), State: name[ReceiptState](m.GetState()), Reason: m.GetReason(), Detail: m.GetDetail(),
		Bytes: m.GetBytes(), BytesUnknown: m.GetBytesUnknown(), Late: m.GetLate(), Elapsed: m.GetElapsed().AsDuration(), Stretch: m.GetStretch(), Parent: m.GetParent(),
		Datagrams: newDatagramCounts(m.GetDatagrams()),
	}
	if m.GetChangeTime() != nil {
		r.Changed = m.GetChangeTime().AsTime()
	}
	return r
}

func newMeasurements(m *groupv1.Measurements) Measurements {
	return Measurements{
		SendBytesPerSecond: m.GetSendBytesPerSecond(), ReceptionBytesPerSecond: m.GetReceptionBytesPerSecond(),
		EffectiveThroughput: m.GetEffectiveThroughput(), Settled: m.GetSettled(), CarriedBytes: m.GetCarriedBytes(),
		Links: convert(m.GetLinks(), func(l *groupv1.LinkUse) LinkUse {
			return LinkUse{
				From: l.GetFrom(), To: l.GetTo(), Bytes: l.GetBytes(), BytesPerSecond: l.GetBytesPerSecond(),
				Stripes: int(l.GetStripes().GetCount()), StripesReason: l.GetStripes().GetReason(), StripesWhy: l.GetStripes().GetWhy(),
				Datagrams: newDatagramUse(l.GetDatagrams()),
			}
		}),
		Caches: convert(m.GetCaches(), func(c *groupv1.CacheUse) CacheUse {
			return CacheUse{c.GetAgent(), c.GetBytes(), c.GetMaxBytes(), c.GetRatio(), c.GetKeeps()}
		}),
	}
}

// Delivery returns a delivery. The id can be shortened as long as it is unambiguous.
func (c *Client) Delivery(ctx context.Context, id string) (Delivery, error) {
	answer, err := c.deliveries.GetDelivery(ctx, &groupv1.GetDeliveryRequest{Delivery: id})
	return newDelivery(answer.GetDelivery()), wrap(err)
}

// Deliveries returns the deliveries of a group, or of all groups if it is empty, the
// newest first, without their receipts.
func (c *Client) Deliveries(ctx context.Context, group string) ([]Delivery, error) {
	return collect(func(token string) ([]*groupv1.Delivery, string, error) {
		answer, err := c.deliveries.ListDeliveries(ctx, &groupv1.ListDeliveriesRequest{Group: group, PageToken: token, PageSize: pageSize})
		return answer.GetDeliveries(), answer.GetNextPageToken(), err
	}, newDelivery)
}

// NewestDelivery returns the newest delivery of a group, or of all groups if it is empty; NotFound if there is none.
func (c *Client) NewestDelivery(ctx context.Context, group string) (Delivery, error) {
	answer, err := c.deliveries.ListDeliveries(ctx, &groupv1.ListDeliveriesRequest{Group: group, PageSize: 1})
	switch all := answer.GetDeliveries(); {
	case err != nil:
		return Delivery{}, wrap(err)
	case len(all) == 0:
		return Delivery{}, &Error{Code: NotFound, Message: "there is no delivery"}
	default:
		return c.Delivery(ctx, all[0].GetId())
	}
}

// CancelDelivery ends a delivery: members that do not have all of it get no more.
func (c *Client) CancelDelivery(ctx context.Context, id string) (Delivery, error) {
	answer, err := c.deliveries.CancelDelivery(ctx, &groupv1.CancelDeliveryRequest{Delivery: id})
	return newDelivery(answer.GetDelivery()), wrap(err)
}

// WatchDelivery yields a delivery as it is, and again as it changes, until it has
// ended, ctx is done, or the iteration is broken off; without its tree, and with what links carried only at its end.
func (c *Client) WatchDelivery(ctx context.Context, id string) iter.Seq2[Delivery, error] {
	return watchUntilEnded(ctx, c.uplink.WatchDelivery, id, remembering())
}

// WatchDeliveryTree is WatchDelivery with the tree, and with what links carry before the end, too.
func (c *Client) WatchDeliveryTree(ctx context.Context, id string) iter.Seq2[Delivery, error] {
	return watchUntilEnded(ctx, c.uplink.WatchDeliveryTree, id, remembering())
}

// remembering is newDelivery for a watch, which may go on at another manager.
func remembering() func(*groupv1.Delivery) Delivery {
	var before Delivery
	return func(m *groupv1.Delivery) Delivery {
		latest := newDelivery(m)
		latest.remember(before)
		before = latest
		return latest
	}
}

// remember fills in how many bytes a node had last where nobody knows: a manager that has just begun to lead has not yet heard how far
// the nodes are. Fewer bytes than before are news, as when a member takes all again; so are none, when it has just begun anew.
func (d *Delivery) remember(before Delivery) {
	d.SentBytes = cmp.Or(d.SentBytes, before.SentBytes)
	had := make(map[string]uint64, len(before.Receipts))
	for _, receipt := range before.Receipts {
		had[receipt.Member] = receipt.Bytes
	}
	for i, receipt := range d.Receipts {
		if receipt.BytesUnknown && (receipt.State == ReceiptReceiving || receipt.State == ReceiptUnknown) {
			d.Receipts[i].Bytes = cmp.Or(receipt.Bytes, had[receipt.Member])
		}
	}
}

// SendOptions are what a sender can choose. What is zero is decided by the group's policy.
type SendOptions struct {
	// Name is what the object is called at the receivers; empty is the source's own name.
	Name        string
	ControlMode ControlMode
	// AckLevel, if empty, is Received for a stream, whatever the group's policy: not everything that a stream can go to can be synced.
	AckLevel   AckLevel
	SlowMember SlowMember
	// LatencyBound is the latency from the sender to a member within which the delivery's tree begins: the smaller of it and the group's holds.
	LatencyBound time.Duration
	// Deadline is how long the delivery may take. Zero is as long as the group has it, or, of a stream, any time.
	Deadline time.Duration
	// Keep is how long agents hold an object for members that join late. Zero is as long as the group has it, or ten minutes; a nanosecond is not at all.
	Keep time.Duration
	// MaxBytesPerSecond bounds what this sender sends. Agents that pass it on are not bounded.
	MaxBytesPerSecond uint64
	Congestion        Congestion
	// Datagrams is for SendDatagrams.
	Datagrams DatagramOptions
}

// Check returns what is wrong with the options no matter what is sent to whom, as Send does before it asks anybody. The managers say
// what the group's policy does not allow.
func (o SendOptions) Check() error {
	if o.Name != "" {
		if err := object.CheckName(o.Name); err != nil {
			return &Error{Code: InvalidArgument, Message: err.Error(), cause: err}
		}
	}
	_, err := o.spec()
	return err
}

// checkSpans refuses negative times.
func (o SendOptions) checkSpans() error {
	for _, of := range []struct {
		name string
		span time.Duration
	}{{"latency bound", o.LatencyBound}, {"deadline", o.Deadline}, {"keep", o.Keep}, {"lag time", o.SlowMember.LagTime}, {"fresh", o.Datagrams.Fresh}} {
		if of.span < 0 {
			return &Error{Code: InvalidArgument, Message: fmt.Sprintf("%s: is %v: want nothing negative", of.name, of.span)}
		}
	}
	return nil
}

// check refuses limits that have no effect: they are for another action than the one that is chosen. If none is chosen, the group's
// policy decides which that is.
func (s SlowMember) check() error {
	lags := s.LagBytes > 0 || s.LagTime > 0
	wrong := ""
	switch {
	case s.Action == "":
	case s.Action != Pace && s.FloorBytesPerSecond > 0:
		wrong = "a floor in bytes per second is for pace"
	case s.Action != Evict && lags:
		wrong = "how far they may lag behind is for evict"
	}
	if wrong == "" {
		return nil
	}
	return &Error{Code: InvalidArgument, Message: fmt.Sprintf("slow members: %s, and what happens to them is %s", wrong, s.Action)}
}

// spec returns the options as the API takes them.
func (o SendOptions) spec() (spec *groupv1.DeliverySpec, err error) {
	if err := cmp.Or(o.checkSpans(), o.SlowMember.check()); err != nil {
		return nil, err
	}
	spec = &groupv1.DeliverySpec{
		Name: o.Name, LatencyBound: span(o.LatencyBound), Deadline: span(o.Deadline), Keep: span(o.Keep), MaxBytesPerSecond: o.MaxBytesPerSecond,
	}
	if spec.ControlMode, err = value[groupv1.ControlMode](o.ControlMode); err != nil {
		return nil, fmt.Errorf("control mode: %w", err)
	}
	if spec.AckLevel, err = value[groupv1.AckLevel](o.AckLevel); err != nil {
		return nil, fmt.Errorf("ack level: %w", err)
	}
	if spec.Congestion, err = value[groupv1.Congestion](o.Congestion); err != nil {
		return nil, fmt.Errorf("congestion: %w", err)
	}
	if o.SlowMember != (SlowMember{}) {
		if spec.SlowMember, err = o.SlowMember.message(); err != nil {
			return nil, fmt.Errorf("slow member: %w", err)
		}
	}
	return spec, nil
}
