package sdk

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
)

// ReplicationState is where a replication is in its life.
type ReplicationState string

// The states.
const (
	ReplicationRunning  ReplicationState = "running"
	ReplicationComplete ReplicationState = "complete"
	// ReplicationPartial has ended, and some replicas are complete.
	ReplicationPartial ReplicationState = "partial"
	ReplicationFailed  ReplicationState = "failed"
)

// ReplicaState says what is known of a replication at one replica.
type ReplicaState string

// The states of replicas.
const (
	// ReplicaWaiting has not heard the sender yet.
	ReplicaWaiting   ReplicaState = "waiting"
	ReplicaReceiving ReplicaState = "receiving"
	// ReplicaComplete has all, verified and on disk.
	ReplicaComplete ReplicaState = "complete"
	ReplicaFailed   ReplicaState = "failed"
	// ReplicaUnknown is not heard of: it may or may not have all.
	ReplicaUnknown ReplicaState = "unknown"
)

// ReplicationSpec says what is replicated to whom.
type ReplicationSpec struct {
	// SourceNode is the replicator that sends, or the node that it runs on.
	SourceNode string
	// SourcePath is a file, a directory or a block device there.
	SourcePath string
	// TargetPath is the directory in which it appears under its own name at every replica, or
	// the block device that it overwrites.
	TargetPath string
	// Selector says who gets it, in terms separated by commas: NAME names a replicator, KEY=VALUE
	// asks for a label, lan=NAME for a LAN, node=NAME for a node; * is every replicator.
	Selector string
	// Slow is Pace or Detach: either all wait for a replica that cannot keep up, or it is served last. Empty is Pace.
	Slow SlowMemberAction
	// Deadline is how long it may take. Zero is no limit.
	Deadline time.Duration
	// MaxBytesPerSecond bounds what is sent to each LAN. Zero is what the sender's network interface carries.
	MaxBytesPerSecond uint64
	// DeviceSerial is the serial number that the device to overwrite must have. Empty asks for none.
	DeviceSerial string
	// SkipUnused leaves out what the file system on a block device does not use: replicas have zeros there. The sender needs partclone
	// for it.
	SkipUnused bool
}

// Replica is what is known of a replication at one replicator.
type Replica struct {
	Name, Node, LAN string
	State           ReplicaState
	// Reason is why it failed: no_multicast, no_room, damaged, disk, disk_stalled, refused, slow, silent, session_lost,
	// left, sender_lost, source_failed, revoked, canceled or deadline. Detail says it for people.
	Reason, Detail string
	// Bytes is how much it has, Resumed how much of that it had from before. BytesUnknown says that nobody knows: the replica has said
	// nothing since another manager leads.
	Bytes, Resumed uint64
	BytesUnknown   bool
	// Lost is what part of what was sent did not arrive at first.
	Lost float64
	// Detached says that it is served last.
	Detached bool
	// OverAgents says that multicast does not reach it: session agents carry it there.
	OverAgents bool
	// Changed is when the state became unknown, or final.
	Changed time.Time
	// Elapsed is how long it took to be complete, as the replica says itself.
	Elapsed time.Duration
}

// Leg is the part of a replication that goes to one LAN.
type Leg struct {
	LAN string
	// Group is the multicast group and port, as 239.195.7.1:7431.
	Group string
	// Replicas is how many are on the LAN, Awaited how many of them are waited for before it begins.
	Replicas, Awaited int
}

// Replication is a source replicated to replicas, spread over LANs.
type Replication struct {
	ID   string
	Spec ReplicationSpec
	// Sender is the replicator that sends.
	Sender string
	State  ReplicationState
	// Reason is why it ended before it was done; empty otherwise. Detail says it for people.
	Reason, Detail string
	Created        time.Time
	// Ended is zero while it runs.
	Ended time.Time
	Legs  []Leg
	// Name and Length are those of the source, once the sender has opened it; Root is known
	// once it has read it.
	Name      string
	Length    uint64
	Root      []byte
	SentBytes uint64
	// ReplicaCount is how many there are, Complete and Failed how many of them ended that way.
	ReplicaCount, Complete, Failed int
	// Replicas are in the order of their names; lists have none.
	Replicas []Replica
	wire
}

func newReplication(m *replicav1.Replication) Replication {
	r := Replication{
		ID: m.GetId(), Spec: newReplicationSpec(m.GetSpec()), Sender: m.GetSender(),
		State: name[ReplicationState](m.GetState()), Reason: m.GetReason(), Detail: m.GetDetail(), Created: m.GetCreateTime().AsTime(),
		Legs: convert(m.GetLegs(), func(l *replicav1.Leg) Leg {
			return Leg{l.GetLan(), l.GetGroup(), int(l.GetReplicas()), int(l.GetAwaited())}
		}),
		Name: m.GetName(), Length: m.GetLength(), Root: m.GetRoot(), SentBytes: m.GetSentBytes(),
		ReplicaCount: int(m.GetReplicaCount()), Complete: int(m.GetCompleteCount()), Failed: int(m.GetFailedCount()),
		Replicas: convert(m.GetReplicas(), newReplica), wire: wire{m},
	}
	if m.GetEndTime() != nil {
		r.Ended = m.GetEndTime().AsTime()
	}
	return r
}

func newReplicationSpec(m *replicav1.ReplicationSpec) ReplicationSpec {
	return ReplicationSpec{
		SourceNode: m.GetSourceNode(), SourcePath: m.GetSourcePath(), TargetPath: m.GetTargetPath(), Selector: m.GetSelector(),
		Slow: name[SlowMemberAction](m.GetSlow()), Deadline: m.GetDeadline().AsDuration(),
		MaxBytesPerSecond: m.GetMaxBytesPerSecond(), DeviceSerial: m.GetDeviceSerial(), SkipUnused: m.GetSkipUnused(),
	}
}

func newReplica(m *replicav1.Replica) Replica {
	r := Replica{
		Name: m.GetName(), Node: m.GetNode(), LAN: m.GetLan(), State: name[ReplicaState](m.GetState()),
		Reason: m.GetReason(), Detail: m.GetDetail(), Bytes: m.GetBytes(), Resumed: m.GetResumedBytes(),
		Lost: m.GetLost(), Detached: m.GetDetached(), OverAgents: m.GetOverAgents(), BytesUnknown: m.GetBytesUnknown(), Elapsed: m.GetElapsed().AsDuration(),
	}
	if m.GetChangeTime() != nil {
		r.Changed = m.GetChangeTime().AsTime()
	}
	return r
}

// message returns the spec as the API takes it.
func (s ReplicationSpec) message() (*replicav1.ReplicationSpec, error) {
	slow, err := value[replicav1.SlowReplica](s.Slow)
	if err != nil {
		return nil, fmt.Errorf("slow replica: %w", err)
	}
	return &replicav1.ReplicationSpec{
		SourceNode: s.SourceNode, SourcePath: s.SourcePath, TargetPath: s.TargetPath, Selector: s.Selector,
		Slow: slow, Deadline: span(s.Deadline), MaxBytesPerSecond: s.MaxBytesPerSecond, DeviceSerial: s.DeviceSerial, SkipUnused: s.SkipUnused,
	}, nil
}

// ErrMayGoOn says that what was asked for may have begun all the same, and go on.
var ErrMayGoOn = errors.New("it may have begun all the same, and go on")

// Replicate begins a replication. It goes on by itself: WatchReplication says how, and
// CancelReplication ends it. If ctx ends while a manager is asked, or that manager is lost and none takes its place in time, Replicate takes up
// to 2 s more, to cancel what may have begun; its error is ErrMayGoOn, too, if it could not.
func (c *Client) Replicate(ctx context.Context, spec ReplicationSpec) (Replication, error) {
	message, err := spec.message()
	if err != nil {
		return Replication{}, err
	}
	request := &replicav1.CreateReplicationRequest{Spec: message, RequestId: requestID()}
	var asked peer.Peer
	answer, err := c.replications.CreateReplication(ctx, request, grpc.Peer(&asked))
	if err == nil {
		return newReplication(answer.GetReplication()), nil
	}
	err = wrap(err)
	if mayHaveBegun(ctx, err, asked) && !c.undoReplicate(ctx, request) {
		err = fmt.Errorf("%w: %w", err, ErrMayGoOn)
	}
	return Replication{}, err
}

// mayHaveBegun reports whether a manager may have done what it was asked for, though the call failed: its answer was not waited for, or it was
// lost before it had answered and none that took its place said what became of it.
func mayHaveBegun(ctx context.Context, err error, asked peer.Peer) bool {
	if asked.Addr == nil { // no manager was asked
		return false
	}
	return ctx.Err() != nil || slices.Contains([]Code{TimedOut, Interrupted, Unavailable}, CodeOf(err)) // managers may say that time is over before ctx does
}

// undoReplicate cancels a replication of whose answer nobody knows, and reports whether none goes on: a manager may have begun it, or be about
// to. The same request once more tells which one that is. Unlike a join, it is of no use to whoever tries again after a timeout: that is
// another replication, and this one would be in its way.
func (c *Client) undoReplicate(ctx context.Context, request *replicav1.CreateReplicationRequest) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	answer, err := c.replications.CreateReplication(ctx, request)
	if err != nil {
		// Once it has begun, it is answered, and not refused.
		return slices.Contains([]Code{InvalidArgument, NotFound, Conflict, Forbidden}, CodeOf(wrap(err)))
	}
	_, err = c.CancelReplication(ctx, answer.GetReplication().GetId())
	return err == nil
}

// NewestReplication returns the newest replication; NotFound if there is none.
func (c *Client) NewestReplication(ctx context.Context) (Replication, error) {
	answer, err := c.replications.ListReplications(ctx, &replicav1.ListReplicationsRequest{PageSize: 1})
	switch all := answer.GetReplications(); {
	case err != nil:
		return Replication{}, wrap(err)
	case len(all) == 0:
		return Replication{}, &Error{Code: NotFound, Message: "there is no replication"}
	default:
		return c.Replication(ctx, all[0].GetId())
	}
}

// Replication returns a replication. The id can be shortened as long as it is unambiguous.
func (c *Client) Replication(ctx context.Context, id string) (Replication, error) {
	answer, err := c.replications.GetReplication(ctx, &replicav1.GetReplicationRequest{Replication: id})
	return newReplication(answer.GetReplication()), wrap(err)
}

// Replications returns all replications that the managers remember, the newest first, without their replicas.
func (c *Client) Replications(ctx context.Context) ([]Replication, error) {
	return collect(func(token string) ([]*replicav1.Replication, string, error) {
		answer, err := c.replications.ListReplications(ctx, &replicav1.ListReplicationsRequest{PageToken: token, PageSize: pageSize})
		return answer.GetReplications(), answer.GetNextPageToken(), err
	}, newReplication)
}

// CancelReplication ends a replication: replicas that are not complete get no more.
func (c *Client) CancelReplication(ctx context.Context, id string) (Replication, error) {
	answer, err := c.replications.CancelReplication(ctx, &replicav1.CancelReplicationRequest{Replication: id})
	return newReplication(answer.GetReplication()), wrap(err)
}

// WatchReplication yields a replication as it is, and again as it changes, until it has
// ended, ctx is done, or the iteration is broken off.
func (c *Client) WatchReplication(ctx context.Context, id string) iter.Seq2[Replication, error] {
	return watchUntilEnded(ctx, c.uplink.WatchReplication, id, newReplication)
}

// watchUntilEnded yields what a watch sends, converted.
func watchUntilEnded[M, R any](
	ctx context.Context, watch func(ctx context.Context, id string, each func(M) error) error, id string, convert func(M) R,
) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		err := watch(ctx, id, func(m M) error { return proceed(yield(convert(m), nil)) })
		if err == nil && ctx.Err() != nil {
			err = ctx.Err()
		}
		if err != nil && !errors.Is(err, errEnough) {
			var none R
			yield(none, wrap(err))
		}
	}
}
