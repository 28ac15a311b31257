package delivery

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/groupcast/groupcast/internal/algo/tree"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// forest is a delivery with a tree of some agents and many members, in a store.
type forest struct {
	*keeper
	t *testing.T
}

const forestAgents = 50

// grow stores a delivery with a tree.
func grow(t *testing.T, members int) *forest {
	t.Helper()
	return growBy(t, leading(t), members)
}

func growBy(t *testing.T, d *Desk, members int) *forest {
	t.Helper()
	delivery := crowd(members)
	d.write(t, delivery)
	nodes := []tree.Node{{Name: "member/s", Kind: tree.Member, Cluster: "zone-0"}}
	for i := range forestAgents {
		nodes = append(nodes, tree.Node{Name: agentOf(i), Kind: tree.Agent, Cluster: fmt.Sprintf("zone-%d", i%3), Uplink: 125_000_000})
	}
	for i, member := range delivery.GetMembers() {
		nodes = append(nodes, leaf(member.GetName(), i))
	}
	built, err := tree.Build("member/s", nodes, tree.Bound{})
	if err != nil {
		t.Fatal(err)
	}
	f := &forest{newKeeper(d, delivery), t}
	f.become(built, causeCreated)
	return f
}

func agentOf(i int) string { return fmt.Sprintf("agent/node-%03d", i%forestAgents) }

// leaf is a member beside an agent.
func leaf(name string, i int) tree.Node {
	return tree.Node{Name: "member/" + name, Kind: tree.Member, Cluster: fmt.Sprintf("zone-%d", i%forestAgents%3), Agent: agentOf(i)}
}

// become stores another tree, and returns how many bytes that took.
func (f *forest) become(next *tree.Tree, cause string) (bytes int) {
	f.t.Helper()
	before, version := f.shown(), f.shown().Tree.GetVersion()+1
	h := history{}
	h.because(cause, strings.Repeat("why ", longestDetail/4))
	record := encodeTree(next, version, nil, h.after(before.Tree.GetChanges(), version, time.Now()))
	if err := f.writeTree(f.t.Context(), before, record); err != nil {
		f.t.Fatal(err)
	}
	f.setTree(next, nil, f.shown().TreeChanged)
	for _, item := range f.items() {
		if item.Changed > before.TreeChanged {
			bytes += len(item.Value)
		}
	}
	return bytes
}

// leave has a member leave.
func (f *forest) leave(i int) (bytes int) {
	f.t.Helper()
	without, err := f.tree.Without("member/" + crowd(i + 1).GetMembers()[i].GetName())
	if err != nil {
		f.t.Fatal(err)
	}
	return f.become(without, causeGone)
}

// come has a member leave, and another one join.
func (f *forest) come(i int) (bytes int) {
	f.t.Helper()
	bytes = f.leave(i)
	with, err := f.tree.With(leaf(fmt.Sprintf("receiver-that-is-late-%05d", i), i))
	if err != nil {
		f.t.Fatal(err)
	}
	return bytes + f.become(with, causeJoined)
}

func (f *forest) shown() view.Delivery { return f.stored(f.t) }

// items are what is stored of the tree.
func (f *forest) items() (items []store.Item) {
	f.t.Helper()
	for _, prefix := range []string{view.TreeKey(f.id), view.StepsPrefix(f.id)} {
		listed, _, err := f.desk.store.List(f.t.Context(), prefix)
		if err != nil {
			f.t.Fatal(err)
		}
		items = append(items, listed...)
	}
	return items
}

// wantTaken wants a manager that reads the store anew to find the tree that is in force.
func (f *forest) wantTaken() {
	f.t.Helper()
	next := newKeeper(f.desk, f.shown())
	next.readTree(f.shown())
	if next.tree == nil {
		f.t.Fatal("the stored tree is none")
	}
	if !reflect.DeepEqual(next.tree.Links(), f.tree.Links()) {
		f.t.Error("the stored tree is another than the one in force")
	}
}

// A member that comes or goes costs what is new, however large the tree is. Whoever leads next finds the tree as it is, and the whole is
// written again before the steps are too much to read.
func TestTreesAreStoredByWhatIsNew(t *testing.T) {
	const members = 1000
	f := grow(t, members)
	whole, written := proto.Size(encodeTree(f.tree, 1, nil, nil)), 0
	for i := range maxSteps / 2 * 3 / 2 {
		written += f.come(i)
		if i%100 == 50 {
			f.wantTaken()
		}
	}
	f.wantTaken()
	if written > 10*whole {
		t.Errorf("%d changes of a tree of %d bytes took %d", maxSteps*3/2, whole, written)
	}
	if stored := len(f.items()); stored < 2 || stored > maxSteps+1 {
		t.Errorf("the tree is %d keys", stored)
	}
	if changes := f.shown().Tree.GetChanges(); len(changes) != view.KeptChanges || changes[len(changes)-1].GetVersion() != f.shown().Tree.GetVersion() {
		t.Errorf("%d changes are told: the last is %v", len(changes), changes[len(changes)-1])
	}
	lost, err := f.tree.Without(agentOf(7))
	if err != nil {
		t.Fatal(err)
	}
	f.become(lost, causeOffline)
	f.wantTaken()
}

// A manager of an earlier version that leads meanwhile goes on with the tree as it was last written whole, with a higher version than all that
// nodes were told; and then so does this one.
func TestTreesAndEarlierManagers(t *testing.T) {
	f := grow(t, 1000)
	asBuilt := f.tree
	f.come(0)
	earlier := f.earlier()
	if earlier.GetVersion() < f.shown().Tree.GetVersion() || len(earlier.GetNodes()) != asBuilt.Len() {
		t.Fatalf("it finds version %d with %d nodes", earlier.GetVersion(), len(earlier.GetNodes()))
	}
	encoded, err := proto.Marshal(encodeTree(asBuilt, earlier.GetVersion()+1, nil, earlier.GetChanges()))
	if err != nil {
		t.Fatal(err)
	}
	at, err := f.desk.store.Commit(t.Context(), f.desk.ledger.Term(), nil, []store.Op{store.Put(view.TreeKey(f.id), encoded)})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.desk.view.Await(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	f.readTree(f.shown())
	if f.shown().Tree.GetVersion() != earlier.GetVersion()+1 || !reflect.DeepEqual(f.tree.Links(), asBuilt.Links()) {
		t.Errorf("version %d, another tree than the one that it has written", f.shown().Tree.GetVersion())
	}
	f.come(1)
	f.wantTaken()
	f.come(2)
	f.wantTaken()
}

// Managers of this version and of the one before lead in turn. The earlier one writes nothing, and tells nodes the version of the record that
// it finds. Nobody tells a node a lower version than another told it: agents would not listen to that.
func TestVersionsOnlyGrowWithEarlierManagers(t *testing.T) {
	f := grow(t, 1000)
	var told uint64
	for i := range 3 {
		for _, led := range []func() uint64{f.versionTold, f.versionOfRecord} {
			if version := led(); version < told {
				t.Fatalf("turn %d: nodes are told version %d, and were told %d", i, version, told)
			} else {
				told = version
			}
		}
		f.come(i)
	}
}

// Members of a large tree leave until it is small, and written whole: nodes are told no lower version than they were told of the large one.
func TestVersionsOnlyGrowWhereTreesBecomeSmall(t *testing.T) {
	f := grow(t, 450)
	told := f.versionTold()
	if f.shown().Tree.GetVersion() == told {
		t.Fatal("the tree is too small for steps beside it")
	}
	for i := 0; proto.Size(f.earlier()) >= wholeBelow; i++ {
		f.leave(i)
	}
	if version := f.versionTold(); version < told {
		t.Errorf("nodes are told version %d, and were told %d", version, told)
	}
	f.wantTaken()
}

// versionTold returns which version a manager tells that leads from now on.
func (f *forest) versionTold() (version uint64) {
	f.t.Helper()
	k := newKeeper(f.desk, f.shown())
	k.takeOver(f.shown())
	if len(k.assigned) < f.tree.Len() {
		f.t.Fatalf("%d nodes are told what there is to do", len(k.assigned))
	}
	for id, assignment := range k.assigned {
		if version != 0 && assignment.GetTreeVersion() != version {
			f.t.Fatalf("%s is told version %d, another %d", id, assignment.GetTreeVersion(), version)
		}
		version = assignment.GetTreeVersion()
	}
	return version
}

// versionOfRecord returns which version a manager tells that knows nothing of steps.
func (f *forest) versionOfRecord() uint64 { return f.earlier().GetVersion() }

// earlier returns the tree as a manager that knows nothing of steps reads it.
func (f *forest) earlier() *managerv1.TreeRecord {
	f.t.Helper()
	record := new(managerv1.TreeRecord)
	if err := proto.Unmarshal(f.items()[0].Value, record); err != nil {
		f.t.Fatal(err)
	}
	return record
}

// A tree goes with all that is stored of it. It does also where a manager of an earlier version has forgotten its delivery, or the tree alone
// and the delivery later: a manager that starts then finds what is left, and so does one that was there.
func TestTreesAreForgottenWhole(t *testing.T) {
	delivery, tree := store.Delete(view.DeliveryKey("d")), store.Delete(view.TreeKey("d"))
	for name, forget := range map[string][][]store.Op{"at once": {{delivery, tree}}, "the tree alone": {{tree}}, "one after the other": {{tree}, {delivery}}} {
		t.Run(name, func(t *testing.T) {
			f := grow(t, 500)
			f.come(0)
			for _, changes := range forget {
				at, err := f.desk.store.Commit(t.Context(), f.desk.ledger.Term(), nil, changes)
				if err != nil {
					t.Fatal(err)
				}
				if err := f.desk.view.Await(t.Context(), at); err != nil {
					t.Fatal(err)
				}
			}
			shown := view.New(f.desk.store, f.desk.log) // of a manager that starts now
			loaded := make(chan struct{})
			var running sync.WaitGroup
			t.Cleanup(running.Wait)
			running.Go(func() {
				if err := shown.Run(t.Context(), func() { close(loaded) }); err != nil {
					t.Error(err)
				}
			})
			<-loaded
			for who, found := range map[string][]string{"that starts": shown.Strays(), "that was there": f.desk.view.Strays()} {
				if !slices.Equal(found, []string{"d"}) {
					t.Errorf("a manager %s finds what is left of %v", who, found)
				}
			}
			f.desk.forgetOld(t.Context())
			if left := f.items(); len(left) > 0 {
				t.Errorf("%d keys are left", len(left))
			}
			if err := f.desk.view.Sync(t.Context()); err != nil || len(f.desk.view.Strays()) > 0 {
				t.Errorf("%v; it is still said that there is something of %v", err, f.desk.view.Strays())
			}
		})
	}
}
