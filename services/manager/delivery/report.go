package delivery

import (
	"github.com/groupcast/groupcast/internal/algo/tree"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/placement"
)

// A node's last report is remembered as long as the delivery is kept, and a node may report what it likes, in each of many deliveries. So only
// what is used is remembered, and no more of that than an honest node has to say.

const (
	// longestWord bounds words such as why a node cannot go on.
	longestWord = 64
	// longestWhy bounds explanations for people: those of a link's stripes have up to some 200 bytes.
	longestWhy = 512
)

// heard returns the part of a node's report that is used. Of the children in it, only those are kept that the node feeds in the tree.
func heard(from identity.ID, report *groupv1.DeliveryReport, current *tree.Tree) *groupv1.DeliveryReport {
	return &groupv1.DeliveryReport{
		Delivery: report.GetDelivery(), Bytes: report.GetBytes(), Ended: report.GetEnded(), Resting: report.GetResting(),
		CachedBytes: report.GetCachedBytes(), MaxCachedBytes: report.GetMaxCachedBytes(), HeldBytes: report.GetHeldBytes(),
		Lost: nodeName(report.GetLost()), Damaged: nodeName(report.GetDamaged()), Trouble: ledger.Clip(report.GetTrouble(), longestWord),
		Children: heardChildren(from, report.GetChildren(), current), Fed: heardChild(report.GetFed()), Stripes: heardStripes(report.GetStripes()),
		Datagrams: report.GetDatagrams(), DatagramUse: report.GetDatagramUse(), Paused: report.GetPaused(), Reads: report.GetReads(), Queued: report.GetQueued(),
	}
}

// heardChildren returns what a node says of the children that it feeds in the tree, each once. An agent and a member may have the same
// name, and agents of earlier versions do not say of which they speak.
func heardChildren(from identity.ID, said []*groupv1.ChildReport, current *tree.Tree) (children []*groupv1.ChildReport) {
	if len(said) == 0 || current == nil {
		return nil
	}
	fed := make(map[identity.ID]int)
	for _, child := range current.Children(from.String()) {
		id := placement.ParseID(child)
		fed[id]++
		fed[identity.ID{Name: id.Name}]++ // of whatever role
	}
	for _, child := range said {
		if id := identity.Named(child); fed[id] > 0 {
			fed[id]--
			children = append(children, heardChild(child))
		}
	}
	return children
}

func heardChild(child *groupv1.ChildReport) *groupv1.ChildReport {
	if child == nil {
		return nil
	}
	return &groupv1.ChildReport{
		Name: nodeName(child.GetName()), Role: ledger.Clip(child.GetRole(), longestWord), Connected: child.GetConnected(), Evicted: child.GetEvicted(), Waits: child.GetWaits(),
		SentBytes: child.GetSentBytes(), Count: child.GetCount(), AckedOffset: child.GetAckedOffset(), SinceSent: child.GetSinceSent(),
		Stripes: heardStripes(child.GetStripes()), Datagrams: child.GetDatagrams(),
	}
}

func heardStripes(stripes *groupv1.Stripes) *groupv1.Stripes {
	if stripes == nil {
		return nil
	}
	return &groupv1.Stripes{
		Count: stripes.GetCount(), Reason: ledger.Clip(stripes.GetReason(), longestWord), Why: ledger.Clip(stripes.GetWhy(), longestWhy),
	}
}

// nodeName returns the name by which a node calls another; empty if nobody can have that name.
func nodeName(name string) string {
	if identity.CheckSession(name) != nil { // members that relay have names of the same form
		return ""
	}
	return name
}
