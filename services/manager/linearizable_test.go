package manager_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// An operation on a group with one member, whose node tells one join from another.
type operation struct {
	group string
	kind  string // join, leave, read
	node  string // of a join
}

// answer is what the client was told. An operation whose answer is not known
// may have had its effect, or have it later, or never.
type answer struct {
	node    string // of a read: the member's; empty if there is none
	found   bool   // of a leave
	unknown bool
}

// membership is what managers promise: each group is a register that joins set,
// leaves clear, and reads return. Its state is the node of the member.
var membership = (&porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byGroup := make(map[string][]porcupine.Operation)
		for _, op := range history {
			group := op.Input.(operation).group
			byGroup[group] = append(byGroup[group], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range byGroup {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() []any { return []any{""} },
	Step: func(state, input, output any) []any {
		member, op, told := state.(string), input.(operation), output.(answer)
		switch {
		case op.kind == "join" && told.unknown:
			return []any{member, op.node}
		case op.kind == "join":
			return []any{op.node}
		case op.kind == "leave" && told.unknown:
			return []any{member, ""}
		case op.kind == "leave" && told.found == (member != ""):
			return []any{""}
		case op.kind == "read" && (told.unknown || told.node == member):
			return []any{member}
		}
		return nil
	},
}).ToModel()

// recorder runs operations and writes down when they began and ended, and how.
type recorder struct {
	start time.Time
	mu    sync.Mutex
	done  []porcupine.Operation
	ready map[string]bool // groups that exist
}

// prepare makes a group. That is no part of the history: it is there before any operation on it.
func (r *recorder) prepare(ctx context.Context, connection *uplink.Uplink, group string) bool {
	r.mu.Lock()
	ready := r.ready[group]
	r.mu.Unlock()
	if ready {
		return true
	}
	_, err := groupv1.NewGroupServiceClient(connection).CreateGroup(ctx, &groupv1.CreateGroupRequest{Name: group})
	if err != nil && status.Code(err) != codes.AlreadyExists {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready[group] = true
	return true
}

func (r *recorder) run(client int, op operation, do func() (answer, error)) {
	began := time.Since(r.start)
	told, err := do()
	ended := time.Since(r.start)
	if managertest.Reason(err) == "RATE_LIMITED" {
		return // refused before anything was done
	}
	if err != nil {
		told = answer{unknown: true}
		ended = time.Duration(1<<62 - 1) // its effect may still come
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = append(r.done, porcupine.Operation{ClientId: client, Input: op, Call: int64(began), Output: told, Return: int64(ended)})
}

// The checker itself must refuse what managers must not do.
func TestCheckerCatchesLies(t *testing.T) {
	op := func(kind, node string, call, end int64, told answer) porcupine.Operation {
		return porcupine.Operation{Input: operation{"g", kind, node}, Call: call, Return: end, Output: told}
	}
	for name, history := range map[string][]porcupine.Operation{
		"a stale read":       {op("join", "a", 0, 1, answer{}), op("read", "", 2, 3, answer{})},
		"a lost join":        {op("join", "a", 0, 1, answer{}), op("join", "b", 2, 3, answer{}), op("read", "", 4, 5, answer{node: "a"})},
		"a join that undone": {op("join", "a", 0, 1, answer{}), op("leave", "", 2, 3, answer{found: false})},
		"a join twice":       {op("join", "a", 0, 1, answer{}), op("leave", "", 2, 3, answer{found: true}), op("read", "", 4, 5, answer{node: "a"})},
	} {
		if porcupine.CheckOperations(membership, history) {
			t.Errorf("%s passes as linearizable", name)
		}
	}
}

// C19: the leader is killed again and again under joins, leaves and reads through
// all managers. What clients saw must be explained by one order of events in
// which nothing acknowledged is lost.
func TestC19LeaderKilledUnderLoad(t *testing.T) {
	t.Parallel()
	const (
		clients  = 32
		groups   = 30              // at a time: one member may not join more often than it should
		lifetime = 4 * time.Second // of a group: shorter than the expiry of members that send no heartbeats
		duration = 20 * time.Second
	)
	cluster := managertest.StartCluster(t, 3)
	connection := cluster.Uplink(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	history := &recorder{start: time.Now(), ready: make(map[string]bool)}
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	var working sync.WaitGroup
	for client := range clients {
		working.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(client)))
			for n := 0; ctx.Err() == nil; n++ {
				generation := int(time.Since(history.start) / lifetime)
				op := operation{group: fmt.Sprintf("g-%d-%d", generation, random.IntN(groups)), kind: []string{"join", "join", "leave", "read", "read"}[random.IntN(5)]}
				if op.kind == "join" {
					op.node = fmt.Sprintf("%d-%d", client, n)
				}
				perform(t, history, connection, client, op)
				time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond) // a client's own pace
			}
		})
	}
	var kills int
	for kills < 2 {
		select {
		case <-ctx.Done():
		case <-time.After(3 * time.Second):
		}
		leader := cluster.Leader(t)
		leader.Kill()
		kills++
		killed := time.Now()
		var others []*managertest.Process
		for _, p := range cluster.Managers {
			if p != leader {
				others = append(others, p)
			}
		}
		cluster.Leader(t, others...)
		if took := time.Since(killed); took > 10*time.Second {
			t.Errorf("failover took %v, want at most 10s", took)
		} else {
			t.Logf("failover took %v", took)
		}
		leader.Start(t)
	}
	working.Wait()
	acknowledged, joins := 0, 0
	for _, op := range history.done {
		if op.Output.(answer).unknown {
			continue
		}
		acknowledged++
		if op.Input.(operation).kind == "join" {
			joins++
		}
	}
	t.Logf("%d operations, %d acknowledged, %d of them joins", len(history.done), acknowledged, joins)
	if acknowledged < 500 {
		t.Errorf("only %d operations were acknowledged: too few to show anything", acknowledged)
	}
	if result := porcupine.CheckOperationsTimeout(membership, history.done, 2*time.Minute); result != porcupine.Ok {
		t.Errorf("the history is not linearizable: %v\n%s", result, unexplained(history.done))
	}
}

// unexplained describes what was done to the first group whose history has no explanation.
func unexplained(history []porcupine.Operation) string {
	var text strings.Builder
	for _, part := range membership.Partition(history) {
		if porcupine.CheckOperationsTimeout(membership, part, time.Minute) == porcupine.Ok {
			continue
		}
		slices.SortFunc(part, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
		for _, op := range part {
			fmt.Fprintf(&text, "%10v to %10v, client %d: %+v: %+v\n", time.Duration(op.Call), time.Duration(op.Return), op.ClientId, op.Input, op.Output)
		}
		break
	}
	return text.String()
}

// perform does one operation and records it. Groups are made as they are met.
func perform(t *testing.T, history *recorder, connection *uplink.Uplink, client int, op operation) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	sessions := groupv1.NewSessionServiceClient(connection)
	if !history.prepare(ctx, connection, op.group) {
		return
	}
	history.run(client, op, func() (answer, error) {
		switch op.kind {
		case "join":
			_, err := sessions.Join(ctx, &groupv1.JoinRequest{Group: op.group, Name: "m", Node: op.node, RequestId: op.node})
			return answer{}, err
		case "leave":
			_, err := sessions.Leave(ctx, &groupv1.LeaveRequest{Group: op.group, Name: "m", RequestId: fmt.Sprintf("%d-%d", client, time.Now().UnixNano())})
			if status.Code(err) == codes.NotFound {
				return answer{found: false}, nil
			}
			return answer{found: true}, err
		default:
			list, err := sessions.ListMembers(ctx, &groupv1.ListMembersRequest{Group: op.group})
			if err != nil || len(list.GetMembers()) == 0 {
				return answer{}, err
			}
			return answer{node: list.GetMembers()[0].GetNode()}, nil
		}
	})
}

// Sessions go on over the death of the leader, and over its being frozen. (C24)
func TestC24FrozenLeaderIsFenced(t *testing.T) {
	t.Parallel()
	cluster := managertest.StartCluster(t, 3)
	client := cluster.Client(t)
	if _, err := client.CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	session, err := client.Join(t.Context(), sdk.Join{Group: "g", Name: "steady"})
	if err != nil {
		t.Fatal(err)
	}
	before, err := client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	frozen := cluster.Leader(t)
	frozen.Freeze(t)
	var others []*managertest.Process
	for _, p := range cluster.Managers {
		if p != frozen {
			others = append(others, p)
		}
	}
	leader := cluster.Leader(t, others...)
	if _, err := leader.Client(t).CreateGroup(t.Context(), "made-meanwhile", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	if _, err := leader.Client(t).CreateGroup(t.Context(), "ended-by-the-old", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	frozen.Thaw(t)
	// Asked directly, at once, it must not act by the term that it slept through, and refuse nothing by it.
	if err := frozen.Client(t).DeleteGroup(t.Context(), "ended-by-the-old", false); err != nil {
		t.Errorf("a change of what was made meanwhile, through the old leader: %v", err)
	}
	status, err := frozen.Client(t).CreateGroup(t.Context(), "asked-of-the-old", sdk.Policy{})
	if err != nil {
		t.Fatalf("a write through the old leader: %v, want it passed on", err)
	}
	if status.Incarnation == 0 {
		t.Error("the group has no incarnation")
	}
	after, err := frozen.Client(t).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if after.Term <= before.Term {
		t.Errorf("term %d after %d: it only grows", after.Term, before.Term)
	}
	if _, err := client.Group(t.Context(), "made-meanwhile"); err != nil {
		t.Errorf("what the new leader wrote: %v", err)
	}
	// The session was kept by whoever led, and is the same incarnation.
	wait(t, 12*time.Second)
	members, err := client.Members(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	if len(members) != 1 || members[0].Incarnation != session.Member().Incarnation {
		t.Errorf("members %+v, want the session that was there before (%v)", members, session.Err())
	}
}
