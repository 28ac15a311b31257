package delivery

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/groupcast/groupcast/internal/algo/tree"
	"github.com/groupcast/groupcast/internal/bytesize"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

const (
	// wholeBelow bounds the trees that are stored whole whenever they change, as managers of earlier versions read them. Of a larger tree, only
	// what is new is stored beside it: that is some hundred bytes for a member that joins, where the tree of 10,000 members has megabytes.
	wholeBelow = 32 << 10
	// maxSteps is after how many changes such a one is stored whole again.
	maxSteps = 500
)

// encodeTree writes a tree down.
func encodeTree(t *tree.Tree, version uint64, absent []string, changes []*groupv1.TreeChange) *managerv1.TreeRecord {
	record := &managerv1.TreeRecord{Version: version, Absent: absent, Changes: changes}
	for _, link := range t.Links() {
		record.Nodes = append(record.Nodes, &managerv1.TreeNode{
			Id: link.Node.Name, Parent: link.Parent, Cluster: link.Node.Cluster,
			UplinkBytesPerSecond: link.Node.Uplink, Agent: link.Node.Agent,
		})
	}
	return record
}

func decodeTree(nodes []*managerv1.TreeNode) []tree.Link {
	links := make([]tree.Link, 0, len(nodes))
	for _, node := range nodes {
		kind := tree.Member
		if placement.ParseID(node.GetId()).Role == identity.Agent {
			kind = tree.Agent
		}
		links = append(links, tree.Link{
			Node: tree.Node{
				Name: node.GetId(), Kind: kind, Cluster: node.GetCluster(),
				Uplink: node.GetUplinkBytesPerSecond(), Agent: node.GetAgent(),
			},
			Parent: node.GetParent(),
		})
	}
	return links
}

// encodeWhole encodes a tree that is stored whole.
func encodeWhole(record *managerv1.TreeRecord) ([]byte, error) {
	if proto.Size(record) >= wholeBelow {
		record = &managerv1.TreeRecord{
			Version: record.GetVersion() + maxSteps, BeforeSteps: record.GetVersion(),
			Nodes: record.GetNodes(), Absent: record.GetAbsent(), Changes: record.GetChanges(),
		}
	}
	encoded, err := proto.Marshal(record)
	if err != nil {
		return nil, fmt.Errorf("encode tree: %w", err)
	}
	return encoded, nil
}

// writeTree writes a tree that follows the delivery's.
func (k *keeper) writeTree(ctx context.Context, delivery view.Delivery, record *managerv1.TreeRecord) error {
	changes, err := k.planTree(delivery, record)
	if err != nil {
		return err
	}
	at, err := k.desk.store.GoOn(ctx, k.desk.ledger.Term(), delivery.TreeUnchanged(), changes)
	if err != nil {
		return err
	}
	return k.desk.view.Await(ctx, at)
}

// planTree plans to store a tree that follows the delivery's, which is in force: as a step if it takes one, else whole. It never
// grows larger than what can be stored whole.
func (k *keeper) planTree(delivery view.Delivery, record *managerv1.TreeRecord) ([]store.Op, error) {
	if size, most := proto.Size(record), k.desk.store.MaxBytes(); size+otherBytes > most {
		return nil, fmt.Errorf("a tree of %d nodes, which is %s: %w, which is %s",
			len(record.GetNodes()), bytesize.Short(uint64(size)), store.ErrTooLarge, bytesize.Short(uint64(most)))
	}
	if k.tree != nil && delivery.Tree.TakesStep(record.GetVersion(), 0) {
		step := stepBetween(encodeTree(k.tree, 0, nil, nil), record)
		step.Record = delivery.Tree.Record()
		encoded, err := proto.Marshal(step)
		if err != nil {
			return nil, fmt.Errorf("encode step of a tree: %w", err)
		}
		if delivery.Tree.TakesStep(record.GetVersion(), len(encoded)) {
			return []store.Op{store.Put(view.StepKey(delivery.ID(), record.GetVersion()), encoded)}, nil
		}
	}
	encoded, err := encodeWhole(record)
	return []store.Op{store.Put(view.TreeKey(delivery.ID()), encoded), store.DeleteAll(view.StepsPrefix(delivery.ID()))}, err
}

// stepBetween returns what is new of a tree after another.
func stepBetween(before, after *managerv1.TreeRecord) *managerv1.TreeStep {
	was := make(map[string]*managerv1.TreeNode, len(before.GetNodes()))
	for _, node := range before.GetNodes() {
		was[node.GetId()] = node
	}
	step := &managerv1.TreeStep{Version: after.GetVersion(), Absent: after.GetAbsent()}
	for _, node := range after.GetNodes() {
		if !proto.Equal(was[node.GetId()], node) {
			step.Nodes = append(step.Nodes, node)
		}
		delete(was, node.GetId())
	}
	step.Gone = slices.Sorted(maps.Keys(was))
	step.Changes = slices.DeleteFunc(slices.Clone(after.GetChanges()), func(change *groupv1.TreeChange) bool {
		return change.GetVersion() != after.GetVersion()
	})
	return step
}
