package relay

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/datagram"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	wiredatagram "github.com/groupcast/groupcast/internal/wire/datagram"
)

// A child that the tree loses while its link is opened is not fed datagrams: the link ends at once.
func TestChildThatIsLostMeanwhileIsNotFed(t *testing.T) {
	f := &flow{inlet: newInlet(t.Context()), changed: make(chan struct{}), children: make(map[string]*fed)}
	tree := func(version uint64, children ...string) {
		assignment := &groupv1.Assignment{TreeVersion: version}
		for _, name := range children {
			assignment.Children = append(assignment.Children, &groupv1.Neighbour{Name: name})
		}
		f.assign(assignment)
	}
	attach := func(name string) (link context.Context, detach func()) {
		link, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		return link, f.attach(name, datagram.NewOut(wiredatagram.Secret{}, time.Millisecond, datagram.Code{}, netip.Addr{}), cancel)
	}
	tree(1, "stays", "goes")
	tree(2, "stays")
	stays, detachOne := attach("stays")
	goes, detachOther := attach("goes")
	if stays.Err() != nil || goes.Err() == nil || f.links() != 1 {
		t.Errorf("who stays: %v, who is gone: %v; %d links", stays.Err(), goes.Err(), f.links())
	}
	detachOther()
	detachOne()
	if f.links() != 0 {
		t.Errorf("%d links when both are gone", f.links())
	}
}

// A stream may go on for months, while members come and go: of children that the tree no longer has, nothing is kept once their links have
// ended. Of those that it had to its end, the last report has all.
func TestFlowForgetsChildrenThatAreGone(t *testing.T) {
	f := &flow{inlet: newInlet(t.Context()), hub: &Hub{}, changed: make(chan struct{}), children: make(map[string]*fed)}
	assign := func(version uint64, ended bool, children ...string) {
		assignment := &groupv1.Assignment{TreeVersion: version, Ended: ended}
		for _, name := range children {
			assignment.Children = append(assignment.Children, &groupv1.Neighbour{Name: name})
		}
		f.assign(assignment)
	}
	attach := func(name string) (detach func()) {
		_, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		return f.attach(name, datagram.NewOut(wiredatagram.Secret{}, time.Millisecond, datagram.Code{}, netip.Addr{}), cancel)
	}
	want := func(names ...string) {
		t.Helper()
		var told []string
		for _, child := range f.report().GetChildren() {
			told = append(told, child.GetName())
		}
		if !slices.Equal(told, names) {
			t.Errorf("it tells of %v, want %v", told, names)
		}
	}
	assign(1, false, "away", "moved", "stays")
	detachAway, detachMoved, detachStays := attach("away"), attach("moved"), attach("stays")
	detachAway()
	want("away", "moved", "stays") // it may come again
	assign(2, false, "stays")
	want("away", "moved", "stays") // once more
	want("moved", "stays")
	detachMoved()
	want("moved", "stays")
	want("stays")
	assign(3, true)
	detachStays()
	want("stays")
}

// A parent that cannot be reached is not reported as lost once the tree has none here: nothing would ever say that it is not.
func TestParentThatIsNoLongerOneIsNotLost(t *testing.T) {
	f := &flow{inlet: newInlet(t.Context()), hub: newHub(t, &nowhere{}), changed: make(chan struct{}), children: make(map[string]*fed)}
	d := newAsking(t, 100, 100)
	parent, without := streamTo(1).GetParent(), streamTo(2)
	without.Parent = nil
	f.assign(streamTo(1))
	for name, p := range map[string]struct {
		assign func(*groupv1.Assignment)
		lose   func(*groupv1.Neighbour)
		lost   *string
	}{"bytes": {d.assign, d.lose, &d.lost}, "datagrams": {f.assign, f.lose, &f.lost}} {
		if p.lose(parent); *p.lost != parent.GetName() {
			t.Errorf("%s: what cannot be reached is not told", name)
		}
		p.assign(without)
		if p.lose(parent); *p.lost != "" {
			t.Errorf("%s: %s is lost, which is not the parent any more", name, *p.lost)
		}
	}
}
