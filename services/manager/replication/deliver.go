package replication

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/ledger"
)

// Where multicast does not get, session agents carry a replication: it is delivered in a group of its own,
// whose members are the sender's replicator and those of the replicas that heard nothing.

// GroupPrefix begins the names of these groups; the replication's id follows.
const GroupPrefix = "replication-"

// IsGroup reports whether a group of such a name is one of these, or would be taken for one.
func IsGroup(name string) bool {
	id, has := strings.CutPrefix(name, GroupPrefix)
	return has && ledger.IsID(id)
}

// canDeliver reports whether session agents can carry replications.
func (d *Desk) canDeliver() bool {
	agents, _ := d.view.Agents("", 1)
	return len(agents) > 0
}

// isToDevice reports whether session agents now carry a replication onto block devices, and so as a stream. A path in /dev counts as a device,
// by whatever link, and also at replicators of earlier versions, which do not tell their devices from their directories.
func (d *Desk) isToDevice(r *replicav1.Replication) bool {
	target := r.GetSpec().GetTargetPath()
	if r.GetSpec().GetDeviceSerial() != "" || strings.HasPrefix(target, "/dev/") {
		return true
	}
	return slices.ContainsFunc(r.GetReplicas(), func(replica *replicav1.Replica) bool {
		known, _ := d.view.Replicator(replica.GetName())
		isCarried := replica.GetOverAgents() && replica.GetState() == replicav1.ReplicaState_REPLICA_STATE_WAITING
		return isCarried && slices.Contains(known.GetDevices(), path.Clean(target))
	})
}

// reroute has session agents carry the replication to some replicas from now on.
func (d *Desk) reroute(ctx context.Context, record *managerv1.ReplicationRecord, to []string) error {
	if len(to) == 0 {
		return nil
	}
	if record.GetDeliveryGroup() == "" {
		name := GroupPrefix + record.GetReplication().GetId()
		_, err := d.groups.CreateGroup(ctx, identity.ID{}, &groupv1.CreateGroupRequest{Name: name})
		if err != nil && !errors.Is(err, ledger.ErrExists) {
			return fmt.Errorf("make the group in which session agents deliver it: %w", err)
		}
		record.DeliveryGroup = name
	}
	for _, replica := range record.GetReplication().GetReplicas() {
		if slices.Contains(to, replica.GetName()) {
			replica.OverAgents = true
		}
	}
	d.log.Info("multicast does not reach some replicas: session agents carry it", "replication", record.GetReplication().GetId(), "replicas", to)
	return nil
}

// groupsAtOnce is how many groups are looked at together.
const groupsAtOnce = 1000

// disband deletes the groups of replications that do not run, whether these have noted them or not: a group is made before its replication says
// so, and the replication may end in between, or the manager. It is called where groups are made, so that none of them is one that is being made.
func (d *Desk) disband(ctx context.Context) {
	for last, more := GroupPrefix, true; more; {
		var page []*groupv1.Group
		page, more = d.view.Groups(last, groupsAtOnce)
		for _, of := range page {
			last = of.GetName()
			id, ours := strings.CutPrefix(last, GroupPrefix)
			if !ours {
				return // they are sorted
			}
			if r, _ := d.view.Replication(id); !IsGroup(last) || r.Running() {
				continue
			}
			_, err := d.groups.DeleteGroup(ctx, identity.ID{}, &groupv1.DeleteGroupRequest{Name: last, Force: true})
			if err != nil && !errors.Is(err, ledger.ErrNotFound) {
				d.log.Debug("a group could not be deleted; trying again later", "group", last, "error", err)
			}
		}
	}
}
