package delivery

import (
	"slices"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
)

// showTree returns who feeds whom and why, and how far everybody is.
func (k *keeper) showTree(absent []string, receipts map[string]*groupv1.Receipt) (nodes []*groupv1.TreeNode) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tree == nil {
		return nil
	}
	for _, link := range k.tree.Links() {
		name := link.Node.Name
		node := &groupv1.TreeNode{
			Id: name, Parent: link.Parent, Cluster: link.Node.Cluster, Why: k.tree.Why(name), Absent: slices.Contains(absent, name),
		}
		if progress := k.progress.nodes[placement.ParseID(name)]; progress != nil {
			node.Bytes, node.BytesPerSecond = progress.report.GetBytes(), progress.rate
		}
		if id := placement.ParseID(name); id.Role == identity.Member { // its receipt may be newer than its report
			node.Bytes = max(node.GetBytes(), receipts[id.Name].GetBytes())
		}
		nodes = append(nodes, node)
	}
	return nodes
}
