package replication

import (
	"context"
	"crypto/rand"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/view"
)

const (
	// maxRunning is how many replications run at once.
	maxRunning = 64
	// maxReplicas is how many replicas one replication has at most: a sender serves little more.
	maxReplicas = 1000
	// keyBytes is the length of a replication's key, and of the secret that its replicas' keys are derived from.
	keyBytes = 32
	// maxText is how long a path or a selector can be.
	maxText = 4096
)

// Create begins a replication to the replicators that are selected now.
func (d *Desk) Create(ctx context.Context, caller identity.ID, asked *replicav1.CreateReplicationRequest) (*replicav1.CreateReplicationResponse, error) {
	if err := checkSpec(asked.GetSpec()); err != nil {
		return nil, err
	}
	as, err := ledger.Identify(caller, asked.GetRequestId(), asked)
	if err != nil {
		return nil, err
	}
	id, response := ledger.NewID(), new(replicav1.CreateReplicationResponse)
	err = d.ledger.Write(ctx, as, response, func() (ledger.Plan, error) {
		c := creation{desk: d, spec: asked.GetSpec(), id: id, now: time.Now()}
		return c.plan(response)
	})
	if err != nil {
		return nil, err
	}
	begun := response.GetReplication()
	if begun.GetId() == id { // not the answer to an earlier request
		d.metrics.started.Inc()
		d.log.Info("a replication begins", "replication", id, "sender", begun.GetSender(), "replicas", begun.GetReplicaCount())
	}
	d.wakeAll()
	return response, nil
}

// checkSpec says what is wrong with what an operator wants.
func checkSpec(spec *replicav1.ReplicationSpec) error {
	var problems ledger.Checks
	text := func(field, text string) {
		problems.That(text != "", field, "is empty")
		problems.That(len(text) <= maxText, field, "is longer than %d bytes", maxText)
		problems.That(!strings.ContainsRune(text, 0), field, "holds a character that it may not")
	}
	place := func(field, at string) {
		text(field, at)
		problems.That(at == "" || path.IsAbs(at), field, "%.80q does not begin at the root: want an absolute path", at)
	}
	text("spec.source_node", spec.GetSourceNode())
	place("spec.source_path", spec.GetSourcePath())
	place("spec.target_path", spec.GetTargetPath())
	text("spec.selector", spec.GetSelector())
	if spec.GetSelector() != "" {
		_, err := parseSelector(spec.GetSelector())
		problems.No("spec.selector", err)
	}
	problems.That(spec.GetSlow() <= replicav1.SlowReplica_SLOW_REPLICA_DETACH && spec.GetSlow() >= 0, "spec.slow", "%d is no value of SlowReplica", spec.GetSlow())
	limit := spec.GetDeadline()
	problems.That(limit == nil || limit.CheckValid() == nil && limit.AsDuration() >= 0, "spec.deadline", "is no span of time")
	problems.That(len(spec.GetDeviceSerial()) <= maxText, "spec.device_serial", "is longer than %d bytes", maxText)
	return problems.Err()
}

// creation is a replication that is being created.
type creation struct {
	desk *Desk
	spec *replicav1.ReplicationSpec
	id   string
	now  time.Time
}

func (c *creation) plan(response *replicav1.CreateReplicationResponse) (ledger.Plan, error) {
	all := c.desk.view.AllReplicators()
	sender, err := c.sender(all)
	if err != nil {
		return ledger.Plan{}, err
	}
	replication := &replicav1.Replication{
		Id: c.id, Spec: c.spec, Sender: sender.GetName(),
		State: replicav1.ReplicationState_REPLICATION_STATE_RUNNING, CreateTime: timestamppb.New(c.now),
	}
	if replication.Replicas, err = c.replicas(all, sender); err != nil {
		return ledger.Plan{}, err
	}
	if replication.Legs, err = c.legs(replication.GetReplicas()); err != nil {
		return ledger.Plan{}, err
	}
	record := &managerv1.ReplicationRecord{Replication: replication, Key: newKey(), NameSecret: newKey(), SenderIncarnation: sender.GetIncarnation()}
	for _, replica := range replication.GetReplicas() {
		if c.desk.isPutOut(record, replica.GetName()) { // its identity was revoked already: it is never told the key
			record.PutOut = append(record.PutOut, replica.GetName())
		}
	}
	response.Replication = proto.CloneOf(replication)
	response.Replication.ReplicaCount = uint32(len(replication.GetReplicas()))
	return putReplication(record, 0)
}

func newKey() []byte {
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // it never fails
	return key
}

// sender finds the replicator that is named, or the one that runs on the node that is named.
func (c *creation) sender(all []*replicav1.Replicator) (*replicav1.Replicator, error) {
	named := c.spec.GetSourceNode()
	var found []*replicav1.Replicator
	for _, r := range all {
		if r.GetName() == named {
			found = []*replicav1.Replicator{r}
			break
		}
		if r.GetNode() == named {
			found = append(found, r)
		}
	}
	switch {
	case len(found) == 0:
		return nil, fmt.Errorf("replicate from %.80q: %w: no replicator has this name or runs on this node; %s", named, ErrNoSender, known(all))
	case len(found) > 1:
		return nil, fmt.Errorf("replicate from %.80q: %w: several replicators run on this node; name one", named, ErrAmbiguous)
	case !c.desk.isOnline(found[0].GetName()):
		return nil, fmt.Errorf("replicate from %q: %w: start groupcast-replicator there, or see its log", found[0].GetName(), ErrOffline)
	}
	return found[0], nil
}

// replicas returns the replicas that are to get it.
func (c *creation) replicas(all []*replicav1.Replicator, sender *replicav1.Replicator) (replicas []*replicav1.Replica, err error) {
	selected, err := parseSelector(c.spec.GetSelector())
	if err != nil {
		return nil, err
	}
	if name, meant := selected.unknown(all); name != "" {
		if meant != "" {
			meant = fmt.Sprintf(" (did you mean %q?)", meant)
		}
		return nil, fmt.Errorf("replicate on %.80q: %w: there is no replicator %.80q%s; %s", selected.text, ErrNoReplicas, name, meant, known(all))
	}
	for _, r := range all { // in the order of their names
		if r.GetName() == sender.GetName() || !selected.matches(r) {
			continue
		}
		replicas = append(replicas, newReplica(selected, sender, r))
	}
	switch {
	case len(replicas) == 0:
		return nil, fmt.Errorf("replicate on %.80q: %w, other than the sender, %q; %s", selected.text, ErrNoReplicas, sender.GetName(), known(all))
	case len(replicas) > maxReplicas:
		return nil, fmt.Errorf("replicate on %.80q: %w (%d replicas, %d can be): select fewer", selected.text, ErrTooMany, len(replicas), maxReplicas)
	}
	return replicas, nil
}

// legs returns the LANs that the replicas are on, each with a multicast group of its own.
func (c *creation) legs(replicas []*replicav1.Replica) (legs []*replicav1.Leg, err error) {
	running := c.desk.view.Replications(view.Replication.Running)
	if len(running) >= maxRunning {
		return nil, fmt.Errorf("replicate: %w (%d run): wait for one to end", ErrTooMany, len(running))
	}
	taken := make(map[string]bool)
	for _, other := range running {
		for _, leg := range other.GetReplication().GetLegs() {
			taken[leg.GetGroup()] = true
		}
	}
	for _, replica := range replicas {
		at := slices.IndexFunc(legs, func(l *replicav1.Leg) bool { return l.GetLan() == replica.GetLan() })
		if at < 0 {
			group, err := c.desk.places.draw(taken)
			if err != nil {
				return nil, err
			}
			at, legs = len(legs), append(legs, &replicav1.Leg{Lan: replica.GetLan(), Group: group})
		}
		legs[at].Replicas++
		if c.desk.isHeard(replica.GetName(), c.now) {
			legs[at].Awaited++
		}
	}
	return legs, nil
}
