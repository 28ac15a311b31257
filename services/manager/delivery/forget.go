package delivery

import (
	"maps"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/view"
)

// goneMemory is for how long it is remembered what a member of a stream said that joined late and has gone.
const goneMemory = 10 * time.Minute

// forgetGone forgets what members of a stream said that joined late and have gone: a stream may go on for months, and members
// with ever new names come and go, as pods do. Of an object it may still matter how much such a member has.
func (k *keeper) forgetGone(delivery view.Delivery, now time.Time) {
	if !delivery.GetDelivery().GetSpec().GetLengthUnknown() || now.Sub(k.forgot) < goneMemory {
		return
	}
	k.forgot = now
	maps.DeleteFunc(k.believedAt, func(_ identity.ID, at time.Time) bool { return now.Sub(at) >= banTime })
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.progress
	for id, node := range p.nodes {
		if id.Role != identity.Member || id == p.sender || now.Sub(node.at) < goneMemory || k.hasNode(id) || isAtStart(delivery, id.Name) {
			continue
		}
		delete(p.nodes, id)
		delete(p.acked, id.Name)
		delete(p.unknown, id.Name)
		maps.DeleteFunc(p.doubted, func(l link, _ uint64) bool { return l.to == id })
	}
}

// hasNode tells whether a node is in the tree. The keeper is locked.
func (k *keeper) hasNode(id identity.ID) bool {
	if k.tree == nil {
		return false
	}
	_, has := k.tree.Node(id.String())
	return has
}
