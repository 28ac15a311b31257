package view

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/store"
)

// The keys of the state, and what is stored under them. A list reads them in the
// order of the alphabet, so that session-end comes after the groups it speaks of.
//
//	group/GROUP             groupv1.Group without epoch and member_count
//	epoch/GROUP             the group's epoch
//	member/GROUP/MEMBER     groupv1.Member
//	session-end/GROUP/MEMBER  how the member's last session ended; leased
//	agent/AGENT             agentv1.Agent
//	delivery/ID             managerv1.DeliveryRecord
//	delivery-tree/ID        managerv1.TreeRecord; gone once the delivery is kept no more
//	tree-step/ID/VERSION    managerv1.TreeStep: what is new of a large tree; gone when the tree is written whole, or goes
//	receipt/ID/MEMBER       groupv1.Receipt, final; those of before the end go into the record with it, if that has room
//	running/GROUP/ID        nothing; there while a delivery runs, so that a group is not deleted meanwhile
//	gatherer/GATHERER       gatherv1.Gatherer without its state and report
//	replicator/REPLICATOR   replicav1.Replicator without its state
//	replication/ID          managerv1.ReplicationRecord; with the key while it runs
//	manager/MANAGER         managerv1.ManagerRecord; written by the leader, removed by the manager itself when it stops
//	identity/ROLE/NAME      Identity
//	token/ID, request/…     read by those who write them; not part of the view, as running/…
//	owner, leader/…         the store's own: whom it belongs to, and who leads
const (
	groupKind    = "group"
	epochKind    = "epoch"
	memberKind   = "member"
	endedKind    = "session-end"
	agentKind    = "agent"
	identityKind = "identity"
	deliveryKind = "delivery"
	treeKind     = "delivery-tree"
	stepKind     = "tree-step"
	receiptKind  = "receipt"
	runningKind  = "running"

	managerKind     = "manager"
	gathererKind    = "gatherer"
	replicatorKind  = "replicator"
	replicationKind = "replication"
)

// GroupKey is where a group is stored.
func GroupKey(name string) string { return groupKind + "/" + name }

// EpochKey is where a group's epoch is stored.
func EpochKey(group string) string { return epochKind + "/" + group }

// MemberKey is where a member is stored.
func MemberKey(group, name string) string { return memberKind + "/" + group + "/" + name }

// MembersPrefix is what all members of a group are stored below.
func MembersPrefix(group string) string { return memberKind + "/" + group + "/" }

// EndedKey is where it is stored how a member's last session ended.
func EndedKey(group, name string) string { return endedKind + "/" + group + "/" + name }

// AgentKey is where an agent is stored.
func AgentKey(name string) string { return agentKind + "/" + name }

// ManagerKey is where a manager is stored.
func ManagerKey(name string) string { return managerKind + "/" + name }

// GathererKey is where a gatherer is stored.
func GathererKey(name string) string { return gathererKind + "/" + name }

// ReplicatorKey is where a replicator is stored.
func ReplicatorKey(name string) string { return replicatorKind + "/" + name }

// ReplicationKey is where a replication is stored.
func ReplicationKey(id string) string { return replicationKind + "/" + id }

// IdentityKey is where an identity is stored.
func IdentityKey(id identity.ID) string { return identityKind + "/" + id.String() }

// DeliveryKey is where a delivery is stored.
func DeliveryKey(id string) string { return deliveryKind + "/" + id }

// TreeKey is where a delivery's tree is stored.
func TreeKey(id string) string { return treeKind + "/" + id }

// ReceiptKey is where a member's receipt is stored.
func ReceiptKey(id, member string) string { return receiptKind + "/" + id + "/" + member }

// ReceiptsPrefix is what all receipts of a delivery are stored below.
func ReceiptsPrefix(id string) string { return receiptKind + "/" + id + "/" }

// RunningKey is there while a delivery runs.
func RunningKey(group, id string) string { return runningKind + "/" + group + "/" + id }

// RunningPrefix is what the marks of all running deliveries of a group are stored below.
func RunningPrefix(group string) string { return runningKind + "/" + group + "/" }

// Identity is what the manager knows of an identity beside its certificates.
type Identity struct {
	// Groups are those that a member may join; "*" stands for all.
	Groups []string `json:"groups,omitempty"`
	// Revoked refuses certificates with this stamp or an earlier one.
	Revoked identity.Stamp `json:"revoked,omitempty"`
	// RevokedHere is how Revoked is written first: it is the revision of the record
	// itself, so that no certificate is issued between the decision and the record.
	RevokedHere bool `json:"revokedHere,omitempty"`
	// Forgiven says that Kubernetes may vouch for the identity again, although it was revoked.
	Forgiven bool `json:"forgiven,omitempty"`
	// Account is the Kubernetes ServiceAccount, as namespace/name, by which a member was let in last: Groups are
	// what the managers' configuration says of it. It is empty after a join token.
	Account string `json:"account,omitempty"`
	// Changed is when the record was last written.
	Changed store.Revision `json:"-"`
}

// EncodeEpoch is how an epoch is stored.
func EncodeEpoch(epoch uint64) []byte { return binary.AppendUvarint(nil, epoch) }

// EncodeEnded is how the end of a session is stored.
func EncodeEnded(incarnation uint64, state groupv1.MemberState) []byte {
	return binary.AppendUvarint([]byte{byte(state)}, incarnation)
}

// put takes a key that was written.
func (v *View) put(item store.Item) error {
	kind, name, _ := strings.Cut(item.Key, "/")
	var err error
	switch kind {
	case groupKind:
		record := new(groupv1.Group)
		if err = proto.Unmarshal(item.Value, record); err == nil {
			v.putGroup(Group{Group: record, Changed: item.Changed})
		}
	case epochKind:
		epoch, _ := binary.Uvarint(item.Value)
		v.putEpoch(name, epoch, item.Changed)
	case memberKind:
		record := new(groupv1.Member)
		if err = proto.Unmarshal(item.Value, record); err == nil {
			v.putMember(Member{record, item.Changed})
		}
	case endedKind:
		v.putEnded(name, item.Value)
	case agentKind:
		record := new(agentv1.Agent)
		if err = proto.Unmarshal(item.Value, record); err == nil {
			v.agents[record.GetName()] = Agent{record, item.Changed}
			v.announceAgents()
		}
	case deliveryKind:
		err = v.putDelivery(name, item)
	case treeKind:
		err = v.putTree(name, item)
	case stepKind:
		err = v.putStep(name, item)
	case receiptKind:
		err = v.putReceipt(name, item)
	case managerKind:
		err = v.putManager(item)
	case gathererKind:
		err = v.putGatherer(item)
	case replicatorKind:
		err = v.putReplicator(item)
	case replicationKind:
		err = v.putReplication(item)
	case identityKind:
		record := Identity{Changed: item.Changed}
		if err = json.Unmarshal(item.Value, &record); err == nil {
			if record.RevokedHere {
				record.Revoked, record.RevokedHere = identity.Stamp(item.Changed), false
			}
			v.putIdentity(parseIdentity(name), record)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", store.ErrDamaged, item.Key, err)
	}
	return nil
}

// delete takes a key that was deleted.
func (v *View) delete(key string, at store.Revision) {
	kind, name, _ := strings.Cut(key, "/")
	switch kind {
	case groupKind:
		v.deleteGroup(name, at)
	case memberKind:
		groupName, memberName, _ := strings.Cut(name, "/")
		v.deleteMember(groupName, memberName, at)
	case endedKind:
		groupName, memberName, _ := strings.Cut(name, "/")
		if g, known := v.groups[groupName]; known {
			delete(g.ended, memberName)
		}
	case agentKind:
		delete(v.agents, name)
		v.announceAgents()
	case deliveryKind:
		v.deleteDelivery(name)
	case treeKind:
		v.deleteTree(name)
	case stepKind:
		v.deleteStep(name)
	case receiptKind:
		v.deleteReceipt(name)
	case managerKind:
		delete(v.managers, name)
	case gathererKind:
		delete(v.gatherers, name)
	case replicatorKind:
		delete(v.replicators, name)
	case replicationKind:
		delete(v.replications, name)
	case identityKind:
		delete(v.identities, parseIdentity(name))
	}
}

func parseIdentity(text string) identity.ID {
	role, name, _ := strings.Cut(text, "/")
	return identity.ID{Role: identity.Role(role), Name: name}
}

// group returns the group, made up if its record has not been seen: within a
// transaction, and in a list, members and epochs may come first.
func (v *View) group(name string, at store.Revision) *group {
	g, known := v.groups[name]
	if !known {
		g = &group{
			members: make(map[string]Member), ended: make(map[string]ended),
			log: changeLog[*groupv1.MemberChange]{base: at}, changed: make(chan struct{}),
		}
		v.groups[name] = g
	}
	return g
}

func (v *View) putGroup(record Group) {
	g := v.group(record.GetName(), record.Changed)
	change := groupv1.ChangeType_CHANGE_TYPE_UPDATED
	if g.record.Group == nil {
		change = groupv1.ChangeType_CHANGE_TYPE_ADDED
	} else {
		record.Epoch, record.EpochChanged = g.record.GetEpoch(), g.record.EpochChanged
	}
	g.record = record
	v.logGroup(g, change, record.Changed)
}

func (v *View) putEpoch(name string, epoch uint64, at store.Revision) {
	g := v.group(name, at)
	if g.record.Group == nil {
		g.record = Group{Group: &groupv1.Group{Epoch: epoch}, EpochChanged: at}
		return
	}
	next := proto.CloneOf(g.record.Group)
	next.Epoch = epoch
	g.record.Group, g.record.EpochChanged = next, at
	v.logGroup(g, groupv1.ChangeType_CHANGE_TYPE_UPDATED, at)
}

func (v *View) deleteGroup(name string, at store.Revision) {
	g, known := v.groups[name]
	if !known {
		return
	}
	for memberName := range g.members { // within the transaction, they may come after the group
		v.deleteMember(name, memberName, at)
	}
	v.logGroup(g, groupv1.ChangeType_CHANGE_TYPE_REMOVED, at)
	delete(v.groups, name)
	close(g.changed)
}

func (v *View) logGroup(g *group, change groupv1.ChangeType, at store.Revision) {
	v.groupLog.add(at, &groupv1.GroupChange{Type: change, Group: g.message()})
}

// message returns the group as the API shows it.
func (g *group) message() *groupv1.Group {
	message := proto.CloneOf(g.record.Group)
	message.MemberCount = uint32(len(g.members))
	return message
}

func (v *View) putMember(record Member) {
	g := v.group(record.GetGroup(), record.Changed)
	if earlier, known := g.members[record.GetName()]; known {
		g.end(earlier, groupv1.MemberState_MEMBER_STATE_FENCED, record.Changed)
		v.members--
	}
	g.members[record.GetName()] = record
	v.members++
	g.add(record.Changed, &groupv1.MemberChange{Type: groupv1.ChangeType_CHANGE_TYPE_ADDED, Member: record.Member})
}

func (v *View) deleteMember(groupName, name string, at store.Revision) {
	g, known := v.groups[groupName]
	if !known {
		return
	}
	record, known := g.members[name]
	if !known {
		return
	}
	delete(g.members, name)
	v.members--
	state := groupv1.MemberState_MEMBER_STATE_EXPELLED // unless the same transaction says otherwise
	if end := g.ended[name]; end.incarnation == record.GetIncarnation() {
		state = end.state
	}
	g.end(record, state, at)
}

// end logs that a session ended.
func (g *group) end(record Member, state groupv1.MemberState, at store.Revision) {
	last := proto.CloneOf(record.Member)
	last.State = state
	g.add(at, &groupv1.MemberChange{Type: groupv1.ChangeType_CHANGE_TYPE_REMOVED, Member: last})
}

func (g *group) add(at store.Revision, change *groupv1.MemberChange) {
	g.log.add(at, change)
	close(g.changed)
	g.changed = make(chan struct{})
}

func (v *View) putEnded(name string, value []byte) {
	groupName, memberName, _ := strings.Cut(name, "/")
	g, known := v.groups[groupName]
	if !known || len(value) < 2 {
		return
	}
	incarnation, _ := binary.Uvarint(value[1:])
	g.ended[memberName] = ended{incarnation, groupv1.MemberState(value[0])}
}
