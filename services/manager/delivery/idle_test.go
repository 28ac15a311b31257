package delivery

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
)

// watched is a delivery whose nodes report each second.
type watched struct {
	*keeper
	t *testing.T
}

// watching returns a delivery over a tree whose links are FROM>TO or FROM>TO@ZONE, with agents a, b, … and members m1, m2, …
func watching(t *testing.T, links ...string) *watched {
	t.Helper()
	w := &watched{newDesk().keep("d"), t}
	all := []tree.Link{{Node: tree.Node{Name: "member/s", Kind: tree.Member}}}
	for _, of := range links {
		from, to, _ := strings.Cut(of, ">")
		to, zone, _ := strings.Cut(to, "@")
		one := node(to)
		one.Cluster = zone
		all = append(all, tree.Link{Node: one, Parent: named(from).String()})
	}
	restored, err := tree.Restore(all, tree.Bound{})
	if err != nil {
		t.Fatal(err)
	}
	w.setTree(restored, nil, 1)
	return w
}

// named returns the node that has a name in these tests.
func named(name string) identity.ID {
	if name == "s" || name[0] == 'm' {
		return placement.MemberID(name)
	}
	return placement.AgentID(name)
}

func node(name string) tree.Node {
	kind := tree.Agent
	if named(name).Role == identity.Member {
		kind = tree.Member
	}
	return tree.Node{Name: named(name).String(), Kind: kind}
}

// report has all nodes report how much they have, s first, and those that feed them that they are connected.
func (w *watched) report(bytes map[string]uint64) {
	now := time.Now()
	for _, name := range w.tree.Names() {
		id := placement.ParseID(name)
		said := &groupv1.DeliveryReport{Bytes: bytes[id.Name]}
		for _, child := range w.tree.Children(name) {
			said.Children = append(said.Children, &groupv1.ChildReport{Name: placement.ParseID(child).Name, Connected: true})
		}
		w.note(id, said, now)
	}
}

// rearrangement is the tree on its way to another.
func (w *watched) rearrangement() *rearrangement {
	return &rearrangement{keeper: w.keeper, tree: w.tree, findings: newFindings(), now: time.Now()}
}

// with adds a node to the tree, fed by an agent.
func (w *watched) with(name, by string) {
	w.t.Helper()
	links := append(w.tree.Links(), tree.Link{Node: node(name), Parent: named(by).String()})
	restored, err := tree.Restore(links, tree.Bound{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.setTree(restored, nil, w.treeRead+1)
}

// An agent that gives nothing is found out, and so is one that starves a member, however often others come: each has a patience of its own.
// That a node comes to such an agent is no reason to wait for the agent longer.
func TestPatienceIsNotThatOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching(t, "s>a", "a>b", "a>c", "b>m1", "c>m2", "c>m3")
		has := map[string]uint64{"m1": 10, "m3": 10}
		for second := range uint64(20) {
			for _, name := range []string{"s", "a", "b", "c", "m2"} {
				has[name] = 100 + second // m1 and m3 get no more
			}
			if second%5 == 4 {
				by := string("bc"[second/5%2])
				w.with(fmt.Sprint("m1", second), by)
			}
			w.report(has)
			time.Sleep(time.Second)
		}
		now := time.Now()
		if since := w.idleSince(named("b"), true); since.IsZero() || now.Sub(since) < idlePatience {
			t.Errorf("b is idle since %v", since)
		}
		if from, starves := w.starved()[named("m3")]; !starves || now.Before(from) {
			t.Error("nothing is known of m3, which c gives nothing")
		}
		for _, name := range []string{"a", "c"} {
			if since := w.idleSince(named(name), true); !since.IsZero() && now.Sub(since) >= idlePatience {
				t.Errorf("%s is idle since %v, and feeds others", name, since)
			}
		}
	})
}

// A node that gets nothing because there is nothing is not idle at once when there is something.
func TestNobodyIsIdleAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching(t, "s>a", "a>b", "b>m1")
		all := map[string]uint64{"s": 10, "a": 10, "b": 10, "m1": 10}
		for range 30 {
			w.report(all)
			time.Sleep(time.Second)
		}
		all["s"], all["a"] = 20, 20
		w.report(all) // b and m1 have not said yet that they have that, too
		for _, name := range []string{"a", "b"} {
			if since := w.idleSince(named(name), true); !since.IsZero() && time.Since(since) >= idlePatience {
				t.Errorf("%s is idle since %v", name, since)
			}
		}
	})
}

// An agent that was absent has all the time that others have, once it is back.
func TestWhoIsBackHasPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching(t, "s>a", "a>m1")
		all := map[string]uint64{"s": 20, "a": 20, "m1": 10}
		w.report(all)
		w.setTree(w.tree, []string{named("a").String()}, 2)
		time.Sleep(time.Minute)
		w.setTree(w.tree, nil, 3)
		w.report(all)
		if since := w.idleSince(named("a"), true); time.Since(since) >= suspicion {
			t.Errorf("it is idle since %v", since)
		}
		for range 16 {
			time.Sleep(time.Second)
			w.report(all)
		}
		if since := w.idleSince(named("a"), true); since.IsZero() || time.Since(since) < idlePatience {
			t.Errorf("it is idle since %v, and gave nothing since it is back", since)
		}
	})
}

// What the members of one group say of an agent has no other group avoid it; what those of two do has all.
func TestOneGroupsWordDoesNotCountForOthers(t *testing.T) {
	w := watching(t, "s>a", "a>m1")
	other := w.desk.keep("other")
	other.group = "h"
	isIdleIn := func(group string) bool { return w.desk.isIdle("a", group, time.Now()) }
	w.foundIdle(named("a"))
	if !isIdleIn("g") || isIdleIn("h") || isIdleIn("i") {
		t.Errorf("found by g, it counts in g: %t, in h: %t, in i: %t; want in g alone", isIdleIn("g"), isIdleIn("h"), isIdleIn("i"))
	}
	other.foundIdle(named("a"))
	if !isIdleIn("g") || !isIdleIn("h") || !isIdleIn("i") {
		t.Errorf("found by g and h, it counts in g: %t, in h: %t, in i: %t; want in all", isIdleIn("g"), isIdleIn("h"), isIdleIn("i"))
	}
	if w.desk.isIdle("a", "g", time.Now().Add(idleMemory)) || len(w.desk.idle) > 0 {
		t.Errorf("it is remembered for too long: %v", w.desk.idle)
	}
}

// In datagrams, an agent that nobody waits for, which nobody feeds then, is not idle, and misses nothing.
func TestWhoIsNotAwaitedIsNotIdleInDatagrams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching(t, "s>a", "a>m1", "a>b", "b>m2")
		w.progress.datagrams, w.progress.awaited = true, map[identity.ID]bool{named("a"): true, named("m1"): true}
		has := map[string]uint64{"b": 10, "m2": 10}
		for second := range uint64(40) {
			has["s"], has["a"], has["m1"] = 100+second, 100+second, 100+second
			w.report(has)
			time.Sleep(time.Second)
		}
		for _, name := range []string{"a", "b"} {
			if since := w.idleSince(named(name), true); !since.IsZero() {
				t.Errorf("%s is idle since %v", name, since)
			}
		}
		if missed := w.progress.nodes[named("b")].missed; missed > 0 {
			t.Errorf("b counts as having missed %d", missed)
		}
	})
}

// Whoever is waited for again has all the time that others have: nobody was to feed it meanwhile. After that, it is idle if it gets nothing.
func TestWhoIsAwaitedAgainHasPatience(t *testing.T) {
	for _, datagrams := range []bool{false, true} {
		t.Run(fmt.Sprintf("datagrams %t", datagrams), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := watching(t, "s>a", "a>m1", "a>b", "b>m2")
				w.progress.datagrams = datagrams
				awaits := func(names ...string) {
					waiting := make(map[identity.ID]bool)
					for _, name := range names {
						waiting[named(name)] = true
					}
					w.progress.await(waiting, time.Now())
				}
				has := map[string]uint64{"b": 10, "m2": 10}
				pass := func(seconds int) {
					for range seconds {
						for _, name := range []string{"s", "a", "m1"} {
							has[name]++
						}
						w.report(has)
						time.Sleep(time.Second)
					}
				}
				has["s"], has["a"], has["m1"] = 100, 100, 100
				awaits("a", "m1", "b", "m2")
				pass(missedMost + 2)
				awaits("a", "m1")
				pass(40)
				awaits("a", "m1", "b", "m2")
				pass(1)
				if since := w.idleSince(named("b"), true); !since.IsZero() && time.Since(since) >= suspicion {
					t.Errorf("b is idle since %v", time.Since(since))
				}
				pass(20)
				if since := w.idleSince(named("b"), true); since.IsZero() || time.Since(since) < idlePatience {
					t.Errorf("b is idle since %v, and got nothing for 20 s", time.Since(since))
				}
			})
		})
	}
}

// A member that had the object already, and never said that a byte had come, hides no agent that moves nothing. Nor does an agent that such
// members alone are behind, which was never asked.
func TestWhoHadItAlreadyHidesNobodyThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching(t, "s>a", "a>b", "a>c", "b>m1", "b>m2", "b>d", "d>m4", "c>m3")
		had := map[string]bool{"m2": true, "d": true, "m4": true}
		w.progress.awaited = make(map[identity.ID]bool)
		for _, name := range w.tree.Names() {
			id := placement.ParseID(name)
			w.progress.awaited[id] = !had[id.Name]
		}
		for second := range uint64(20) {
			has := map[string]uint64{"s": 100 + second, "a": 100 + second, "c": 100 + second, "m3": 100 + second, "b": 10, "m1": 10}
			for _, name := range w.tree.Names() {
				id := placement.ParseID(name)
				said := &groupv1.DeliveryReport{Bytes: has[id.Name]}
				for _, child := range w.tree.Children(name) {
					of := placement.ParseID(child).Name
					said.Children = append(said.Children, &groupv1.ChildReport{Name: of, Connected: !had[of]})
				}
				w.note(id, said, time.Now())
			}
			time.Sleep(time.Second)
		}
		if since := w.idleSince(named("b"), true); since.IsZero() || time.Since(since) < idlePatience {
			t.Errorf("b moves nothing, and is idle since %v", since)
		}
		for _, name := range []string{"a", "c", "d"} {
			if since := w.idleSince(named(name), true); !since.IsZero() && time.Since(since) >= idlePatience {
				t.Errorf("%s is idle since %v", name, since)
			}
		}
	})
}
