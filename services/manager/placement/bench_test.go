package placement_test

import (
	"fmt"
	"maps"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/placement"
)

const (
	benchSites   = 100
	benchMembers = 500
)

// sites is a network of sites with one agent each, on a line, and of members at every second of them that have measured every agent.
func sites() (n placement.Network, times map[tree.Pair]time.Duration) {
	times = make(map[tree.Pair]time.Duration)
	apart := func(a, b int) time.Duration { return time.Duration(1+math.Abs(float64(a-b))) * time.Millisecond }
	n.Sender = &groupv1.Member{Name: "m000"}
	for site := range benchSites {
		agent := fmt.Sprintf("a%02d", site)
		n.Agents = append(n.Agents, &agentv1.Agent{
			Name: agent, Zone: fmt.Sprintf("z%02d", site), Addresses: []string{agent + ":7475"}, State: agentv1.AgentState_AGENT_STATE_ONLINE,
		})
		for other := range site {
			times[tree.Pair{A: fmt.Sprintf("agent/a%02d", other), B: "agent/" + agent}] = apart(site, other)
		}
		for member := range benchMembers {
			times[tree.Pair{A: "agent/" + agent, B: fmt.Sprintf("member/m%03d", member)}] = apart(site, 2*member%benchSites)
		}
	}
	for member := range benchMembers {
		n.Receivers = append(n.Receivers, &groupv1.Member{
			Name: fmt.Sprintf("m%03d", member), Labels: map[string]string{"zone": fmt.Sprintf("z%02d", 2*member%benchSites)},
		})
	}
	n.Receivers = n.Receivers[1:]
	return n, times
}

// BenchmarkBuild builds trees of 500 members at 100 sites, each by what was measured anew, and keeps them as ended deliveries do.
func BenchmarkBuild(b *testing.B) {
	n, times := sites()
	var kept []*tree.Tree
	before := heap()
	for b.Loop() {
		measured := placement.Measured{RTT: tree.RTTs{Nodes: maps.Clone(times), Version: uint64(len(kept) + 1)}.Shared()}
		n.Measured = func() placement.Measured { return measured }
		built, err := n.Build()
		if err != nil {
			b.Fatal(err)
		}
		kept = append(kept, built.Light())
	}
	b.ReportMetric(float64(heap()-before)/float64(len(kept)), "kept-B/op")
	runtime.KeepAlive(kept)
	runtime.KeepAlive(times)
}

// heap returns how much memory is in use.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
