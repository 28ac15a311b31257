package delivery

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/groupcast/groupcast/internal/algo/reshape"
	"github.com/groupcast/groupcast/internal/algo/tree"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/services/manager/view"
)

const megabyte = 1_000_000

// got notes how much a node has by now, and at which rate it came.
func (w *watched) got(name string, bytes, rate uint64) {
	w.progress.nodes[named(name)] = &nodeProgress{report: &groupv1.DeliveryReport{Bytes: bytes}, at: time.Now(), rate: rate}
}

// lagging is a delivery in which agent b gets far less than agent c, and feeds a third.
func lagging(t *testing.T, spec *groupv1.DeliverySpec) (r *rearrangement, step func()) {
	t.Helper()
	w := watching(t, "s>a", "a>b", "a>c", "b>d")
	r = &rearrangement{keeper: w.keeper, tree: w.tree}
	seconds := uint64(10)
	return r, func() {
		seconds++
		w.got("a", 10*megabyte*seconds, 10*megabyte)
		w.got("b", megabyte*seconds, megabyte)
		w.got("c", 10*megabyte*seconds, 10*megabyte)
		w.got("d", megabyte*seconds, megabyte)
		r.now, r.history = time.Now(), nil
		r.lowerSlow(running(spec))
		time.Sleep(time.Second)
	}
}

// What an agent lacks of a stream in datagrams does not wait for it: the agent is not slow for that.
func TestNobodyLagsInDatagrams(t *testing.T) {
	stream := fileSpec()
	datagrams(&groupv1.DatagramSpec{})(stream)
	file := fileSpec()
	file.Length = 10_000 * megabyte
	for name, test := range map[string]struct {
		spec  *groupv1.DeliverySpec
		moves bool
	}{"a file": {file, true}, "datagrams": {stream, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, step := lagging(t, test.spec)
				for range 3 {
					step()
				}
				if moved := r.feeder("b") != named("a").String(); moved != test.moves {
					t.Errorf("the agent that has less has moved: %t\n%v", moved, r.tree)
				}
			})
		})
	}
}

// An agent that was found to be slow counts as slow for a while, however long the delivery goes on in which it was, and no longer than until it
// shows that it is not.
func TestSlownessIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.noteSlow("d", "", map[string]uint64{named("a").String(): megabyte, named("b").String(): megabyte}, time.Now())
		wantSlow := func(want ...string) {
			t.Helper()
			for _, name := range []string{"a", "b"} {
				if _, is := d.slowness(name, "g", time.Now()); is != slices.Contains(want, name) {
					t.Errorf("%s counts as slow: %t", name, is)
				}
			}
		}
		wantSlow("a", "b")
		time.Sleep(time.Minute)
		d.noteSlow("d", "", map[string]uint64{named("b").String(): 0}, time.Now())
		wantSlow("a")
		time.Sleep(slowMemory) // nobody has noted anything meanwhile
		wantSlow()
	})
}

// What a delivery has found of an agent is not wiped out by what another finds: each tells it once.
func TestSlownessIsOfADelivery(t *testing.T) {
	d, now, x := newDesk(), time.Now(), named("x").String()
	want := func(rate uint64) {
		t.Helper()
		if got, _ := d.slowness("x", "g", now); got != rate {
			t.Errorf("x counts as slow with %d, want %d", got, rate)
		}
	}
	d.noteSlow("one", "", map[string]uint64{x: megabyte}, now)
	d.noteSlow("other", "", map[string]uint64{x: 0}, now)
	want(megabyte)
	d.noteSlow("other", "", map[string]uint64{x: 2 * megabyte}, now)
	want(megabyte)
	d.noteSlow("other", "", map[string]uint64{x: megabyte / 2}, now)
	want(megabyte / 2)
	d.noteSlow("other", "", map[string]uint64{x: 0}, now)
	want(megabyte)
	d.noteSlow("one", "", map[string]uint64{x: 0}, now)
	want(0)
}

// An agent is found to be slow since another one takes more in its place. Between session agents that counts for all groups. Where a relay takes
// part, a member of one group, it counts for that group alone: others have no relays, or their own.
func TestSlownessBesideRelays(t *testing.T) {
	for name, test := range map[string]struct {
		heir   string
		others uint64 // the uplink of the slow agent in other groups; 0 if it is as stated
	}{
		"another session agent takes more": {"d", megabyte},
		"a relay takes more":               {"laptop.g", 0},
	} {
		t.Run(name, func(t *testing.T) {
			spec := fileSpec()
			spec.Length = 10_000 * megabyte
			u := serve(t, spec)
			u.stand(
				&managerv1.TreeNode{Id: "member/s"},
				&managerv1.TreeNode{Id: "agent/a", Parent: "member/s"},
				&managerv1.TreeNode{Id: "agent/b", Parent: "agent/a"},
				&managerv1.TreeNode{Id: "agent/" + test.heir, Parent: "agent/b"},
			)
			r := &rearrangement{keeper: u.keeper, tree: u.tree, now: time.Now()}
			got := make(map[string]uint64)
			for range 30 {
				r.now = r.now.Add(time.Second)
				for _, agent := range []string{"a", "b", test.heir} {
					rate := uint64(10 * megabyte)
					if by := r.feeder(agent); agent == "b" || by == "agent/b" {
						rate = megabyte
					}
					got[agent] += rate
					u.progress.nodes[named(agent)] = &nodeProgress{report: &groupv1.DeliveryReport{Bytes: got[agent]}, at: r.now, rate: rate}
				}
				r.history, r.findings = nil, newFindings()
				r.lowerSlow(running(spec))
				u.hold(r.findings)
			}
			for group, want := range map[string]uint64{"g": megabyte, "another": test.others} {
				agents := u.desk.agentRecords(group)
				at := slices.IndexFunc(agents, func(agent *agentv1.Agent) bool { return agent.GetName() == "b" })
				if got := agents[at].GetCapacity().GetUplinkBytesPerSecond(); got != want {
					t.Errorf("in group %s the agent's uplink is %d, want %d", group, got, want)
				}
			}
		})
	}
}

// The rate for which an agent was once moved lower is not its uplink for as long as the tree lives: that is what is known of it by now.
func TestUplinksInATreeAreRenewed(t *testing.T) {
	const stated = 50 * megabyte
	for name, test := range map[string]struct {
		find func(u *unserved)
		want uint64
	}{
		"it was found not to be slow, or that was long ago": {func(*unserved) {}, stated},
		"it was found to be slow": {func(u *unserved) {
			u.desk.noteSlow("d", "", map[string]uint64{named("b").String(): 2 * megabyte}, time.Now())
		}, 2 * megabyte},
		"that is not found out yet": {func(u *unserved) {
			u.lag.Moved(reshape.Move{Node: named("b").String(), Parent: named("a").String(), Rate: megabyte}, u.tree, time.Now())
		}, megabyte},
	} {
		t.Run(name, func(t *testing.T) {
			u := serve(t, fileSpec())
			known, _ := u.desk.view.Agent("b")
			b := proto.CloneOf(known.Agent)
			b.Capacity = &agentv1.Capacity{UplinkBytesPerSecond: stated}
			u.desk.put(t, view.AgentKey("b"), b)
			u.stand(
				&managerv1.TreeNode{Id: "member/s"},
				&managerv1.TreeNode{Id: "agent/a", Parent: "member/s"},
				&managerv1.TreeNode{Id: "agent/b", Parent: "agent/a", UplinkBytesPerSecond: megabyte},
				&managerv1.TreeNode{Id: "member/m1", Parent: "agent/a"},
				&managerv1.TreeNode{Id: "member/m2", Parent: "agent/a"},
			)
			test.find(u)
			u.desk.join(t, "late", "")
			u.mustArrange()
			if got, _ := u.tree.Node("agent/b"); got.Uplink != test.want {
				t.Errorf("the uplink is %d, want %d", got.Uplink, test.want)
			}
			next := u.nextLeader()
			next.desk.join(t, "later", "")
			next.mustArrange()
			if _, fed := next.tree.Node("member/later"); !fed {
				t.Error("the next leader has not changed the tree")
			}
			if got, _ := next.tree.Node("agent/b"); got.Uplink != test.want {
				t.Errorf("the next leader has the uplink %d, want %d", got.Uplink, test.want)
			}
		})
	}
}

// An agent that counts as slow no longer does not do so again under the next leader, though nothing else of the tree has changed meanwhile. That is
// written once.
func TestWhoIsSlowNoLongerIsNotSlowToTheNextLeader(t *testing.T) {
	u := serve(t, fileSpec())
	u.stand(
		&managerv1.TreeNode{Id: "member/s"},
		&managerv1.TreeNode{Id: "agent/a", Parent: "member/s"},
		&managerv1.TreeNode{Id: "agent/b", Parent: "agent/a", UplinkBytesPerSecond: megabyte},
		&managerv1.TreeNode{Id: "member/m1", Parent: "agent/a"},
		&managerv1.TreeNode{Id: "member/m2", Parent: "agent/a"},
	)
	before := u.shown().Tree.GetVersion()
	for range 3 {
		u.mustArrange()
	}
	if now := u.shown().Tree.GetVersion(); now != before+1 {
		t.Errorf("the tree's version was %d, and is %d", before, now)
	}
	if rate, slow := u.nextLeader().desk.slowness("b", "g", time.Now()); slow {
		t.Errorf("it counts as slow, with %d", rate)
	}
}

// nextLeader returns the delivery as the next leader has it, which knows what is stored and nothing else.
func (u *unserved) nextLeader() *unserved {
	clear(u.desk.slow)
	next := newKeeper(u.desk, u.shown())
	next.progress.claimed = true
	next.takeOver(u.shown())
	return &unserved{next, u.t}
}

// What an earlier leader found of an agent counts as long as what one finds itself, and for the group whose tree says so.
func TestNextLeaderForgetsWhoWasSlow(t *testing.T) {
	u := serve(t, fileSpec())
	u.stand(
		&managerv1.TreeNode{Id: "member/s"},
		&managerv1.TreeNode{Id: "agent/a", Parent: "member/s"},
		&managerv1.TreeNode{Id: "agent/b", Parent: "agent/a", UplinkBytesPerSecond: megabyte},
	)
	next, now := u.nextLeader(), time.Now()
	for _, test := range []struct {
		group string
		at    time.Time
		slow  bool
	}{{"g", now, true}, {"another", now, false}, {"g", now.Add(slowMemory), false}} {
		if _, is := next.desk.slowness("b", test.group, test.at); is != test.slow {
			t.Errorf("in %s at %v the agent counts as slow: %t", test.group, test.at.Sub(now), is)
		}
	}
	next.desk.noteSlow(next.id, "", map[string]uint64{named("b").String(): 0}, now)
	if _, is := next.desk.slowness("b", "g", now); is {
		t.Error("the agent counts as slow though the delivery found that to be wrong")
	}
}

// Who was moved to make a tree better rests under the next leader, too. That is not told who it was, and moves nobody until then.
func TestNextLeaderMovesNobodyWhoHasJustMoved(t *testing.T) {
	file := fileSpec()
	file.Length = 10_000 * megabyte
	for name, test := range map[string]struct {
		cause string
		ago   time.Duration
		rests bool
	}{
		"one lagged":              {causeLags, 5 * time.Second, true},
		"one gave slowly":         {causeGives, 5 * time.Second, true},
		"a parent was nearer":     {causeNearer, 5 * time.Second, true},
		"by a clock that is fast": {causeNearer, -time.Hour, true},
		"that was before":         {causeLags, 30 * time.Second, false},
		"a member joined":         {causeJoined, 5 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inherits := func(k *keeper) view.Delivery {
					change := &groupv1.TreeChange{Cause: test.cause, Time: timestamppb.New(time.Now().Add(-test.ago))}
					delivery := running(file)
					delivery.Tree = view.NewTree(&managerv1.TreeRecord{Changes: []*groupv1.TreeChange{change}}, 0, 0)
					k.inherit(delivery, time.Now())
					return delivery
				}
				const soon = 20 * time.Second
				near := strayed(t)
				took := near.seekIn(inherits(near.keeper), time.Minute, func() {})
				if isLater := took > soon; took == 0 || isLater != test.rests {
					t.Errorf("the member goes to a nearer agent after %v", took)
				}
				lags, step := lagging(t, file)
				inherits(lags.keeper)
				begun := time.Now()
				for lags.feeder("b") == named("a").String() && time.Since(begun) < time.Minute {
					step()
				}
				if took := time.Since(begun); took >= time.Minute || took > soon != test.rests {
					t.Errorf("the agent that lags moves after %v", took)
				}
			})
		})
	}
}

// A change that makes paths longer than the group's bound says so, once.
func TestLateTreesAreSaidToBe(t *testing.T) {
	links := watching(t, "s>a", "a>b", "b>m1").tree.Links()
	restored := func(between time.Duration) *tree.Tree {
		rtt := tree.RTTs{Nodes: map[tree.Pair]time.Duration{{A: "agent/a", B: "agent/b"}: between}}
		built, err := tree.Restore(links, tree.Bound{MaxLatency: 20 * time.Millisecond, RTT: rtt})
		if err != nil {
			t.Fatal(err)
		}
		return built
	}
	k := newDesk().keep("d")
	for _, test := range []struct {
		before, after time.Duration
		want          string
	}{
		{time.Millisecond, 10 * time.Millisecond, "it joins"},
		{time.Millisecond, 100 * time.Millisecond, "it joins; beyond the latency bound: tree: 50ms+2? from the sender over member/s > agent/a > agent/b > member/m1, and the limit is 20ms"},
		{90 * time.Millisecond, 100 * time.Millisecond, "it joins"},
	} {
		k.setTree(restored(test.before), nil, 1)
		r := &rearrangement{keeper: k, tree: restored(test.after)}
		r.because(causeJoined, "it joins")
		r.noteLate()
		if got := r.history[0].GetDetail(); len(r.history) != 1 || got != test.want {
			t.Errorf("%v after %v: %q, want %q", test.after, test.before, got, test.want)
		}
	}
}
