package uplink

import (
	"context"
	"errors"
	"time"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
)

// ReplicatorFenced says that another process registered as the same replicator.
type ReplicatorFenced struct{ State replicav1.ReplicatorState }

func (e *ReplicatorFenced) Error() string {
	return "registration ended: another process registered as the same replicator, with the same credentials"
}

// Duty is how a replicator takes part in replications.
type Duty struct {
	// Report returns how the replications are going.
	Report func() *replicav1.Report
	// Assign takes everything that there is to do, whenever that has changed. It must not block.
	Assign func(*replicav1.Tasks)
	// Wake makes a report be sent at once.
	Wake <-chan struct{}
}

// ErrAnew is the cause with which a context ends a registration that is to be made anew at once: for the managers the
// replicator stays.
var ErrAnew = errors.New("it is registered anew")

// RegisterReplicator registers a replicator and reports for it until ctx is done; then the replicator says goodbye. If a newer
// incarnation of it has registered, RegisterReplicator returns *ReplicatorFenced. If ctx ended by ErrAnew there is no goodbye: the
// registration can be changed and made anew, and goes on as the same incarnation.
func (u *Uplink) RegisterReplicator(ctx context.Context, registration *replicav1.Registration, duty Duty) error {
	incarnation := registration.GetIncarnation()
	err := u.attendWith(ctx, "register replicator", reattachSoon, func(ctx context.Context) error {
		stream, err := replicav1.NewReplicatorServiceClient(u).Control(ctx)
		if err != nil {
			return err
		}
		registration.Incarnation = incarnation
		first, every := true, reportInterval
		return exchange(ctx, stream, talk[*replicav1.ControlRequest, *replicav1.ControlResponse]{
			wake:  duty.Wake,
			every: func() time.Duration { return every },
			next: func() *replicav1.ControlRequest {
				if first {
					first = false
					return &replicav1.ControlRequest{Message: &replicav1.ControlRequest_Registration{Registration: registration}}
				}
				return &replicav1.ControlRequest{Message: &replicav1.ControlRequest_Report{Report: duty.Report()}}
			},
			take: func(answer *replicav1.ControlResponse) error {
				switch answer.GetState() {
				case replicav1.ReplicatorState_REPLICATOR_STATE_ONLINE:
				case replicav1.ReplicatorState_REPLICATOR_STATE_OFFLINE:
					incarnation = 0 // the managers have forgotten this incarnation
					return errGivenUp
				default:
					return &ReplicatorFenced{answer.GetState()}
				}
				incarnation = answer.GetIncarnation()
				if interval := answer.GetReportInterval().AsDuration(); interval > 0 {
					every = interval
				}
				u.learnTime(answer.GetManagerTime())
				if answer.GetTasks() != nil {
					duty.Assign(answer.GetTasks())
				}
				return nil
			},
		})
	})
	registration.Incarnation = incarnation
	if ctx.Err() != nil && incarnation != 0 && !errors.Is(context.Cause(ctx), ErrAnew) {
		u.sayGoodbye(registration)
	}
	return err
}

// sayGoodbye tells the manager that the replicator stops. It is a courtesy: without it the
// replicator counts as offline after a while.
func (u *Uplink) sayGoodbye(registration *replicav1.Registration) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	stream, err := replicav1.NewReplicatorServiceClient(u).Control(ctx)
	if err != nil {
		return
	}
	for _, message := range []*replicav1.ControlRequest{
		{Message: &replicav1.ControlRequest_Registration{Registration: registration}},
		{Message: &replicav1.ControlRequest_Report{Report: &replicav1.Report{Goodbye: true}}},
	} {
		if stream.Send(message) != nil {
			return
		}
	}
	for err == nil {
		_, err = stream.Recv()
	}
}

// WatchReplication calls each with a replication as it is now, and again whenever it changes, until
// it has ended or ctx is done. It survives broken connections and changing leaders.
func (u *Uplink) WatchReplication(ctx context.Context, id string, each func(*replicav1.Replication) error) error {
	return watchWhole(ctx, u, "watch replication",
		func(ctx context.Context) (receiver[*replicav1.WatchReplicationResponse], error) {
			return replicav1.NewReplicationServiceClient(u).WatchReplication(ctx, &replicav1.WatchReplicationRequest{Replication: id})
		},
		func(message *replicav1.WatchReplicationResponse) (ended bool, err error) {
			replication := message.GetReplication()
			if replication == nil {
				return false, nil // a heartbeat
			}
			return replication.GetState() != replicav1.ReplicationState_REPLICATION_STATE_RUNNING, each(replication)
		})
}
