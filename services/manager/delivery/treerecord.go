package delivery

import (
	"github.com/groupcast/groupcast/internal/algo/tree"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
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

func decodeTree(record *managerv1.TreeRecord) []tree.Link {
	links := make([]tree.Link, 0, len(record.GetNodes()))
	for _, node := range record.GetNodes() {
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
