package relay_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// An agent that comes into a delivery whose receivers have much takes what they lack and no byte more, though one of them comes a moment after
// the other.
func TestNewAgentTakesWhatIsLacking(t *testing.T) {
	const size, had, less = 6 << 20, 5 << 20, 4 << 20
	for name, spec := range modes() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, size, spec)
			w.start("sa1", 64<<20)
			w.start("sa2", 64<<20)
			w.tree("sa1", "sender", "sa2")
			w.tree("sa2", "sa1", "r1", "r2")
			r1, r2 := newMember("r1"), newMember("r2")
			r1.got.Write(w.content[:had])
			r2.got.Write(w.content[:less])
			var pulling sync.WaitGroup
			pulling.Go(func() { _ = w.pull(t.Context(), r1, func() string { return "sa2" }) })
			w.await("r1 has come", func() bool { return w.agents["sa2"].Load().Links > 0 })
			w.deliver("sa1", map[*member]string{r2: "sa2"})
			pulling.Wait()
			if came := w.agents["sa2"].count(w, "received_bytes"); came != size-less {
				t.Errorf("%v bytes came, want the %d that are lacking", came, size-less)
			}
			if !r1.isDone() || r1.has() != size {
				t.Errorf("r1 has %d bytes of %d", r1.has(), size)
			}
		})
	}
}

// A delivery may go on for months, while members come and go: of children that the tree no longer has, nothing is kept once their links have
// ended, but for who lied. One that comes back goes on where it was.
func TestChildrenThatAreGoneAreForgotten(t *testing.T) {
	w := newWorld(t, 16<<20, modes()["CONTROL_MODE_HOP-DATA_PLANE_TLS"])
	w.start("sa1", 64<<20)
	w.tree("sa1", "sender", "back", "away", "liar", "stays")
	told := func() (names []string) {
		for _, child := range w.agents["sa1"].Reports()[0].GetChildren() {
			names = append(names, child.GetName())
		}
		slices.Sort(names)
		return names
	}
	tell := func(why string, names ...string) {
		t.Helper()
		w.await(why, func() bool { return slices.Equal(told(), names) })
	}
	w.lie("liar", "sa1")
	away, err := w.dialAs("away", "sa1")
	if err != nil {
		t.Fatal(err)
	}
	tell("all have come", "away", "liar")
	away.Close()
	w.await("a link has ended", func() bool { return !w.childOf("sa1", "away").GetConnected() })
	tell("who has no link may come again", "away", "liar")
	back := newMember("back")
	back.pace = 2 * time.Millisecond
	var delivering sync.WaitGroup
	delivering.Go(func() { w.deliver("sa1", map[*member]string{back: "sa1", newMember("stays"): "sa1"}) })
	w.await("it has some", func() bool { return back.has() > 3<<20 })
	count := w.childOf("sa1", "back").GetCount()
	w.version++
	w.tree("sa1", "sender", "stays")
	tell("who is gone is forgotten", "liar", "stays")
	had := back.has()
	w.version++
	w.tree("sa1", "sender", "back", "stays")
	delivering.Wait()
	if sent := w.childOf("sa1", "back").GetSentBytes(); sent > uint64(len(w.content)-had) {
		t.Errorf("it was sent %d bytes when it came back, and had %d of %d", sent, had, len(w.content))
	}
	if again := w.childOf("sa1", "back").GetCount(); count == 0 || again == 0 || again == count {
		t.Errorf("it is counted anew as %d, and was as %d: want others, and not 0", again, count)
	}
}

// What the links to a child carried is told once more when the tree no longer has it. Once the delivery is sealed it is told to its end: members
// that have all are children no longer, and a manager that begins to lead has not heard of their links.
func TestWhatLinksCarriedIsToldWhenTheyAreGone(t *testing.T) {
	const size = 1 << 20
	for name, isSealed := range map[string]bool{"it runs": false, "it is sealed": true} {
		for what, carry := range map[string]func(*testing.T) *world{
			"bytes": func(t *testing.T) *world {
				w := newWorld(t, size, modes()["CONTROL_MODE_HOP-DATA_PLANE_TLS"])
				w.start("sa1", 64<<20)
				w.tree("sa1", "sender", "gone", "stays")
				w.deliver("sa1", map[*member]string{newMember("gone"): "sa1"})
				return w
			},
			"datagrams": func(t *testing.T) *world {
				w := newFlowWorld(t, &groupv1.DatagramSpec{})
				w.start("sa1", 1<<20)
				w.tree("sa1", "sender", "gone")
				gone := w.listen("gone", "sa1")
				w.awaitFed("sa1", "gone")
				sender := w.talk("sa1")
				sender.say(0, 10)
				w.wantAll("gone", gone, 10)
				gone.conn.Close()
				sender.conn.Close()
				return w
			},
		} {
			t.Run(what+", "+name, func(t *testing.T) {
				w := carry(t)
				w.await("all links have ended", func() bool { return w.agents["sa1"].Load().Links == 0 })
				w.version, w.sealed = w.version+1, isSealed
				w.tree("sa1", "sender", "stays")
				first, second := w.childOf("sa1", "gone"), w.childOf("sa1", "gone")
				if first.GetSentBytes() == 0 {
					t.Errorf("what its links carried is not told: %v", first)
				}
				if first.GetCount() == 0 {
					t.Errorf("the count has no name: %v", first)
				}
				if isKept := second.GetSentBytes() == first.GetSentBytes(); isKept != isSealed {
					t.Errorf("told again: %v, want that: %v", second, isSealed)
				}
			})
		}
	}
}

// A member that was given up as too slow, and left the tree for that, is fed again when the tree has it again.
func TestWhoWasGivenUpMayComeAgain(t *testing.T) {
	w, slow := newEvicting(t)
	sending, done := context.WithCancel(t.Context())
	var sender sync.WaitGroup
	sender.Go(func() { _ = w.send(sending, "sa1") })
	if err := w.pull(t.Context(), slow, func() string { return "sa1" }); err == nil {
		t.Fatal("it was not given up")
	}
	w.version++
	w.tree("sa1", "sender")
	w.version++
	w.tree("sa1", "sender", "slow")
	slow.pace = 0
	if err := w.pull(t.Context(), slow, func() string { return "sa1" }); err != nil || slow.has() != len(w.content) {
		t.Errorf("%v, with %d of %d bytes", err, slow.has(), len(w.content))
	}
	done()
	sender.Wait()
}

// A member that has all lacks the word of the end alone, as its link broke before that. It is told also while everything comes again for another:
// as that goes on, it may be the only one that is not done.
func TestWhoHasAllIsToldTheEndWhileAllComesAgain(t *testing.T) {
	for name, spec := range modes() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 16<<20, spec)
			w.start("sa1", 1<<20)
			w.tree("sa1", "sender", "first")
			w.deliver("sa1", map[*member]string{newMember("first"): "sa1"})
			w.tree("sa1", "sender", "first", "late")
			late, whole := newMember("late"), newMember("whole")
			whole.got.Write(w.content)
			w.pulls(late, "sa1")
			w.await("everything is to come again", func() bool { return w.agents["sa1"].count(w, "restarts") > 0 })
			w.tree("sa1", "sender", "first", "late", "whole")
			w.pulls(whole, "sa1")
			w.await("the one that has all is told so", whole.isDone)
			if late.isDone() {
				t.Error("nobody sends, and the other has all")
			}
		})
	}
}
