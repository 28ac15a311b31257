package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/services/manager/store"
)

// Tree says who feeds whom in a delivery, as stored: as it was last written whole, with what is new since. It does not change, and its messages
// are shared. A nil Tree stands for none.
type Tree struct {
	record  *managerv1.TreeRecord
	steps   []*managerv1.TreeStep
	written store.Revision // the record
	bytes   int            // of the record
	beside  int            // bytes of the steps
	changes []*groupv1.TreeChange
}

// KeptChanges is how many changes of a tree are told.
const KeptChanges = 32

// NewTree returns a tree that is written whole, in so many bytes.
func NewTree(record *managerv1.TreeRecord, written store.Revision, bytes int) *Tree {
	return &Tree{record: record, written: written, bytes: bytes, changes: record.GetChanges()}
}

// Then returns the tree after another step, of so many bytes. A step that follows another record changes nothing: a manager of an earlier
// version may have written its record over the one that the step follows.
func (t *Tree) Then(step *managerv1.TreeStep, bytes int) (next *Tree, follows bool) {
	if t == nil || step.GetRecord() != t.record.GetVersion() || step.GetVersion() <= t.GetVersion() {
		return t, false
	}
	after := *t
	after.steps, after.beside = append(t.steps[:len(t.steps):len(t.steps)], step), t.beside+bytes
	all := append(t.changes[:len(t.changes):len(t.changes)], step.GetChanges()...)
	after.changes = all[max(0, len(all)-KeptChanges):]
	return &after, true
}

func (t *Tree) last() *managerv1.TreeStep {
	if t == nil || len(t.steps) == 0 {
		return nil
	}
	return t.steps[len(t.steps)-1]
}

// GetVersion returns the tree's version.
func (t *Tree) GetVersion() uint64 {
	switch last := t.last(); {
	case t == nil:
		return 0
	case last != nil:
		return last.GetVersion()
	case t.record.GetBeforeSteps() != 0:
		return t.record.GetBeforeSteps()
	}
	return t.record.GetVersion()
}

// GetAbsent returns the agents of the tree that feed nobody for now.
func (t *Tree) GetAbsent() []string {
	if last := t.last(); t == nil || last != nil {
		return last.GetAbsent()
	}
	return t.record.GetAbsent()
}

// GetChanges returns why the tree has changed lately, the latest last.
func (t *Tree) GetChanges() []*groupv1.TreeChange {
	if t == nil {
		return nil
	}
	return t.changes
}

// Record returns the version of the record that steps follow; 0 without a tree.
func (t *Tree) Record() uint64 {
	if t == nil {
		return 0
	}
	return t.record.GetVersion()
}

// TakesStep reports whether a step to a version can be stored beside the record: there are only so many versions before the record's.
func (t *Tree) TakesStep(version uint64) bool { return t != nil && version <= t.record.GetVersion() }

// HoldsStepOf reports whether the steps, with another one of so many bytes, have no more bytes than the record: else the tree had better be
// written whole.
func (t *Tree) HoldsStepOf(bytes int) bool {
	return t.beside+bytes <= t.bytes
}

// Nodes returns the tree's nodes: the sender first, each other node after the one that feeds it.
func (t *Tree) Nodes() []*managerv1.TreeNode {
	if t == nil || len(t.steps) == 0 {
		return t.wholeNodes()
	}
	latest := make(map[string]int) // the list in which each node is as it is now: 0 is the record, then come the steps
	lists := [][]*managerv1.TreeNode{t.record.GetNodes()}
	for _, node := range t.record.GetNodes() {
		latest[node.GetId()] = 0
	}
	for i, step := range t.steps {
		for _, id := range step.GetGone() {
			delete(latest, id)
		}
		for _, node := range step.GetNodes() {
			latest[node.GetId()] = i + 1
		}
		lists = append(lists, step.GetNodes())
	}
	return topDown(lists, latest)
}

func (t *Tree) wholeNodes() []*managerv1.TreeNode {
	if t == nil {
		return nil
	}
	return t.record.GetNodes()
}

// topDown returns, of the nodes in lists, those that are the latest, each after the one that feeds it. Those that one node feeds come in the
// order in which they came to it.
func topDown(lists [][]*managerv1.TreeNode, latest map[string]int) []*managerv1.TreeNode {
	below := make(map[string][]*managerv1.TreeNode, len(latest))
	for i, nodes := range lists {
		for _, node := range nodes {
			if at, is := latest[node.GetId()]; is && at == i {
				below[node.GetParent()] = append(below[node.GetParent()], node)
			}
		}
	}
	order := append(make([]*managerv1.TreeNode, 0, len(latest)), below[""]...)
	for next := 0; next < len(order); next++ {
		order = append(order, below[order[next].GetId()]...)
	}
	return order
}

// StepKey is where a step of a delivery's tree is stored, by its version.
func StepKey(id string, version uint64) string {
	return fmt.Sprintf("%s%020d", StepsPrefix(id), version)
}

// StepsPrefix is what all steps of a delivery's tree are stored below.
func StepsPrefix(id string) string { return stepKind + "/" + id + "/" }

// TreeUnchanged holds while the delivery's tree is as it is shown.
func (d Delivery) TreeUnchanged() []store.Cond {
	var written store.Revision
	if d.Tree != nil {
		written = d.Tree.written
	}
	return []store.Cond{store.Unchanged(TreeKey(d.ID()), written), store.UnchangedBelow(StepsPrefix(d.ID()), d.TreeChanged)}
}

func (v *View) putTree(id string, item store.Item) error {
	record := new(managerv1.TreeRecord)
	if err := proto.Unmarshal(item.Value, record); err != nil {
		return err
	}
	d := v.entry(id)
	d.Tree, d.TreeChanged = NewTree(record, item.Changed, len(item.Value)), item.Changed
	return nil
}

func (v *View) putStep(name string, item store.Item) error {
	step := new(managerv1.TreeStep)
	if err := proto.Unmarshal(item.Value, step); err != nil {
		return err
	}
	id, _, _ := strings.Cut(name, "/")
	d, known := v.deliveries[id]
	if !known || d.Tree == nil {
		v.strays[id] = true
		return nil
	}
	if next, follows := d.Tree.Then(step, len(item.Value)); follows {
		d.Tree, d.TreeChanged = next, item.Changed
	}
	return nil
}

func (v *View) deleteTree(id string) {
	if d, known := v.deliveries[id]; known {
		v.noteStray(id, d.Tree)
		d.Tree, d.TreeChanged = nil, 0
	}
}

// noteStray notes that a tree, or its delivery, is gone, and that its steps are left, unless they go, too.
func (v *View) noteStray(id string, gone *Tree) {
	if gone.last() != nil {
		v.strays[id] = true
	}
}

func (v *View) deleteStep(name string) {
	id, _, _ := strings.Cut(name, "/")
	delete(v.strays, id) // they go all at once
}

// Strays returns the deliveries of which steps are left although their trees are gone: a manager of an earlier version has forgotten those.
func (v *View) Strays() []string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.Collect(maps.Keys(v.strays))
}
