// Package tree arranges a delivery's tree: who is fed by whom.
//
// The rule, and where it comes from:
//
//   - A session agent duplicates what it receives, so the sender sends once and each
//     link carries one copy (000 §II-B). The sender feeds one agent, its ingress: the
//     nearest of its own cluster, else the one it prefers, else the nearest of all.
//   - "Minimize duplicate packets along router-to-router links […]. Perform the bulk of
//     packet redistribution within host clusters" (002 §3.1.2). A cluster that has agents
//     is entered once, by its gateway; everything else of it is fed inside.
//   - "Hosts having the least capacities are located at the lower levels of the delivery
//     tree" (002 §2). A gateway is the strongest agent of its cluster, and inside a
//     cluster no agent is fed by a weaker one, the ingress apart.
//   - Members do not relay. One hangs from the agent that it prefers, in a place kept for
//     it, else from an agent of its cluster, else from the nearest agent with room.
//   - The tree stays "within a specified delay constraint" (002 §3): where placing by
//     strength breaks the bound, Build places by latency; where the fan-out was left to
//     it, it makes the tree flatter; and then it names the path that is too long.
//   - No agent feeds more children than the fan-out limit; the tree gets deeper instead.
//
// Build is a greedy heuristic. Its objective, after the rules above, is the latency to
// the worst member, where a hop costs half of its RTT and a hop that was not measured
// costs a pessimistic constant; without measurements this is the depth. The package's
// tests compare it with all trees that keep the rules, on small random networks: at most
// 1 in 50 is worse than the optimum if nothing was measured, and 1 in 10 if all was.
//
// A tree is a value: With, Without and Measured return another one. Which of them is in
// force, and its version, is the caller's business. Every result depends on the set of
// nodes alone, never on their order.
package tree
