package tree_test

import (
	"fmt"
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

const gigabit = 125_000_000

func member(name, cluster, agent string) tree.Node {
	return tree.Node{Name: name, Kind: tree.Member, Cluster: cluster, Agent: agent}
}

func agent(name, cluster string, uplink uint64) tree.Node {
	return tree.Node{Name: name, Kind: tree.Agent, Cluster: cluster, Uplink: uplink}
}

// networks returns figure 5 of 000: the sender is in network a; b, c and d have some members each;
// there are two routers with session agents. Networks a and b are at SA1, c and d at SA2. All links
// take 10 ms, but the link between the routers takes trunk.
func networks(members int, trunk time.Duration) ([]tree.Node, tree.RTTs) {
	nodes := []tree.Node{member("ma1", "a", ""), agent("SA1", "r1", 0), agent("SA2", "r2", 0)}
	const edge = 10 * time.Millisecond
	rtt := tree.RTTs{Clusters: map[tree.Pair]time.Duration{{A: "r1", B: "r2"}: 2 * trunk}}
	for _, network := range []string{"a", "b", "c", "d"} {
		near, far := "r1", "r2"
		if network >= "c" {
			near, far = far, near
		}
		rtt.Clusters[tree.Pair{A: network, B: near}] = 2 * edge
		rtt.Clusters[tree.Pair{A: network, B: far}] = 2 * (edge + trunk)
		for i := 1; i <= members && network != "a"; i++ {
			nodes = append(nodes, member(fmt.Sprintf("m%s%d", network, i), network, ""))
		}
	}
	return nodes, rtt
}

// routers returns the same network with the clusters of 002 §3.1.2, where hosts "share a router".
func routers(members int) []tree.Node {
	nodes, _ := networks(members, 0)
	for i := range nodes {
		switch nodes[i].Cluster {
		case "a", "b":
			nodes[i].Cluster = "r1"
		case "c", "d":
			nodes[i].Cluster = "r2"
		}
	}
	return nodes
}

// zones returns a cluster of computers for each zone, with an agent and a member on each computer.
// Every fourth computer has a tenth of the others' capacity. The sender is the first computer's
// member. Inside a zone the RTT is 200 µs, between two zones 1 ms and more.
func zones(computers, zones int) ([]tree.Node, tree.RTTs) {
	var nodes []tree.Node
	for i := range computers {
		zone, uplink := zoneName(i%zones, zones), uint64(10*gigabit)
		if i%4 == 3 {
			uplink = gigabit
		}
		name := fmt.Sprintf("node-%04d", i)
		nodes = append(nodes, agent(name, zone, uplink), member("m-"+name, zone, name))
	}
	rtt := tree.RTTs{Clusters: map[tree.Pair]time.Duration{}}
	for a := range zones {
		for b := range a + 1 {
			time := 200*time.Microsecond + time.Duration(a-b)*time.Millisecond
			rtt.Clusters[tree.Pair{A: zoneName(a, zones), B: zoneName(b, zones)}] = time
		}
	}
	return nodes, rtt
}

func zoneName(number, of int) string {
	if of <= 26 {
		return fmt.Sprintf("zone-%c", 'a'+rune(number))
	}
	return fmt.Sprintf("zone-%03d", number)
}
