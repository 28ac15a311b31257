package delivery

import (
	"maps"
	"slices"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// showIn shows the tree in a delivery.
func (k *keeper) showIn(shown *groupv1.Delivery, stored *view.Tree) {
	shown.Tree = k.showTree(stored.GetAbsent(), had(shown))
	shown.TreeChanges, shown.TreeClusters = stored.GetChanges(), k.showClusters(shown.GetTree())
}

// showTree returns who feeds whom and why, and how far everybody is.
func (k *keeper) showTree(absent []string, had map[string]uint64) (nodes []*groupv1.TreeNode) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tree == nil {
		return nil
	}
	links := k.tree.Links()
	for _, link := range links {
		name := link.Node.Name
		how := k.howFar(placement.ParseID(name), had)
		nodes = append(nodes, &groupv1.TreeNode{
			Id: name, Parent: link.Parent, Cluster: link.Node.Cluster, Why: k.tree.Why(name), Absent: slices.Contains(absent, name),
			Bytes: how.bytes, BytesPerSecond: how.rate,
		})
	}
	return nodes
}

// showClusters returns the clusters of a tree's nodes, by name.
func (k *keeper) showClusters(nodes []*groupv1.TreeNode) (clusters []*groupv1.TreeCluster) {
	k.mu.Lock()
	defer k.mu.Unlock()
	known := make(map[string]*groupv1.TreeCluster)
	of := make(map[string]string) // each node's cluster, by the node's id
	for _, node := range nodes {
		name := node.GetCluster()
		if known[name] == nil {
			known[name] = &groupv1.TreeCluster{Name: name, Directives: k.told[name]}
		}
		if of[node.GetId()] = name; placement.ParseID(node.GetId()).Role == identity.Agent {
			known[name].Agents++
		} else {
			known[name].Members++
		}
		if node.GetParent() != "" && of[node.GetParent()] != name {
			known[name].Entered++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		clusters = append(clusters, known[name])
	}
	return clusters
}

// had returns what members have by their receipts, and the sender by what it has sent: it may not have reported to this leader.
func had(shown *groupv1.Delivery) map[string]uint64 {
	bytes := make(map[string]uint64, len(shown.GetReceipts())+1)
	for _, receipt := range shown.GetReceipts() {
		bytes[receipt.GetMember()] = receipt.GetBytes()
	}
	bytes[shown.GetSender()] = shown.GetSentBytes()
	return bytes
}

// howFar is what a node has, and at which rate it lately got more.
type howFar struct{ bytes, rate uint64 }

// howFar returns how far a node is. What a member had otherwise may be newer than its report.
func (k *keeper) howFar(id identity.ID, had map[string]uint64) (how howFar) {
	if node := k.progress.nodes[id]; node != nil {
		how = howFar{node.report.GetBytes(), node.rate}
	}
	if id.Role == identity.Member {
		how.bytes = max(how.bytes, had[id.Name])
	}
	return how
}

// toldTree is the tree of a delivery as a client that watches was last told it.
type toldTree struct {
	begun   bool
	read    store.Revision // of the keeper's tree
	version uint64         // of the record, which changes before the keeper's tree does
	nodes   []identity.ID
	had     []howFar
}

// tell adds to a message what is new of the tree.
func (t *toldTree) tell(k *keeper, delivery view.Delivery, message *groupv1.WatchDeliveryResponse) {
	shown, read := message.GetDelivery(), k.treeIs()
	if t.begun && t.read == read && t.version == delivery.Tree.GetVersion() {
		message.TreeUnchanged, message.Nodes = true, t.progressed(k, had(shown))
		return
	}
	k.showIn(shown, delivery.Tree)
	*t = toldTree{begun: true, read: read, version: delivery.Tree.GetVersion()}
	for _, node := range shown.GetTree() {
		t.nodes = append(t.nodes, placement.ParseID(node.GetId()))
		t.had = append(t.had, howFar{node.GetBytes(), node.GetBytesPerSecond()})
	}
}

// treeIs returns the revision of the keeper's tree.
func (k *keeper) treeIs() store.Revision {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.treeRead
}

// progressed returns how far those nodes are that have got further.
func (t *toldTree) progressed(k *keeper, had map[string]uint64) (nodes []*groupv1.NodeProgress) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for place, id := range t.nodes {
		if how := k.howFar(id, had); how != t.had[place] {
			t.had[place] = how
			nodes = append(nodes, &groupv1.NodeProgress{Place: uint32(place), Bytes: how.bytes, BytesPerSecond: how.rate})
		}
	}
	return nodes
}
