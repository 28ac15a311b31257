// Package tree arranges a delivery's tree: who is fed by whom.
//
// The rule, and where it comes from:
//
//   - A session agent duplicates what it receives, so the sender sends once and a link
//     carries one copy (000 §II-B). The sender feeds one agent, its ingress: an agent of its
//     own cluster if there is one, before all the agent beside it; else the nearest.
//   - "Minimize duplicate packets along router-to-router links […]. Perform the bulk of
//     packet redistribution within host clusters" (002 §3.1.2). A cluster that has agents
//     is entered once, by its gateway; everything else of it is fed inside. Clusters are
//     the labels of the nodes; an agent without label is a cluster of its own. Labels may name a
//     rack in a zone, ZONE/RACK: racks of a zone are nearer to each other than to others as long
//     as nothing else was measured, so that a zone is entered once, too.
//   - "Hosts having the least capacities are located at the lower levels of the delivery
//     tree" (002 §2). A gateway is the strongest agent of its cluster, and of equals the one that is
//     nearest to the rest of it. Inside a cluster Build has no agent fed by a weaker one, the
//     ingress apart; a node that comes later, or moves, goes by what is near.
//   - Members do not relay. One hangs from the agent beside it, on the same computer, which
//     takes no link; else from an agent of its cluster; else, where its cluster has none,
//     from the nearest agent. Clusters that are nearest to no member are entered last.
//   - The tree stays "within a specified delay constraint" (002 §3): where placing by
//     strength breaks the bound, Build places by latency, tries another ingress, makes the
//     tree flatter if the fan-out was left to it, and then names the path that is too long. A
//     tree that is changed because a node comes, goes or gets nothing may break it, and then says so
//     (CheckLatency, Why); a change that only makes it better does not.
//   - What goes far goes there once: a gateway is fed by the nearest of those over which its
//     path is little longer than the shortest.
//   - No agent feeds more children than the fan-out limit; the tree gets deeper instead.
//     Where none is given, it follows from the load: those that share an uplink share its
//     rate, so a large object goes along a chain and a small one over a flat tree. An agent
//     with another uplink than the median feeds as many more, or as many fewer.
//
// Build is a greedy heuristic. Its objective, after the rules above, is the time to the
// worst member, where a hop costs half of its RTT, and a pessimistic constant if that was
// not measured; without measurements this is the depth. The optimum that it is compared with
// may ignore strength. On 3000 random networks of 3 to 8 nodes, half of them agents:
//
//	                                          optimal   mean ratio   worst   no tree found
//	nothing measured                             89 %        1.026    1.50               0
//	all RTTs measured                            62 %        1.100    3.75               0
//	latency bound at 1.25 of the optimum         73 %        1.028    1.25             3 %
//	latency bound at the optimum itself         100 %        1.000    1.00            14 %
//
// On 3000 random graphs of 3 to 8 corners, a node at each, all measured: the cable that carries most has
// 1.33 times the copies that the best tree's has, in two of three as many, and the stretch is 1.13 times
// the least in the mean (TestCopiesAgainstTheOptimum); no tree has the least of both everywhere.
//
// On a network of 960 computers behind 48 stubs and 16 transit routers, with an agent and a
// member on each, by what is carried; against a tree of random parents, and a star in which
// the sender feeds all (TestStretchAndStress):
//
//	                depth   stretch: mean   worst   copies on one link   between routers
//	a stream           13            1.32       4                   7                 7
//	100 KB              9            1.23       2                  10                 7
//	10 MB              20            1.41       6                  10                10
//	1 GB              959           11.80      20                   4                 4
//	random tree        16           21.60     737                  103               103
//	star                1            1.00       1                  959               940
//
// A tree that keeps the fan-out limit is found whenever there is one, and so are new parents
// for the children of an agent that died.
//
// A tree is a value: With, Without, Elsewhere, Lower, Rise, Nearer and Measured return another one. Which of them is in
// force, and its version, is the caller's business. Trees that come from each other share what
// is alike: a change copies the pages on which something changes (pages.go), what a path costs
// is kept from where it enters a cluster on (ways.go), and for a parent in other clusters one
// agent of each is looked at (site.go). So a change takes as long as its cluster is large, and
// as there are clusters; and as the tree is, where nodes have no cluster. What Build returns depends on the set
// of nodes alone, not on their order.
//
// Why it is so: docs/decisions.md#trees.
package tree
