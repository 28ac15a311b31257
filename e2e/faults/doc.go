// Package faults breaks deliveries on purpose: a manager, agents, receivers and a
// sender run as the programs that users run, each on a host of its own in the network
// lab, and a test kills, freezes, cuts off or crowds one of them.
//
//	n := faults.Start(t, faults.Topology{Agents: 3, Members: "abbc"})
//	push := n.Push(n.Object("model", 32<<20), "--rate", "16MB")
//	n.AwaitBytes(push, "m2", 8<<20)
//	n.Kill("agent-b")
//	n.AwaitComplete(push)
//
// Whatever a test does, at its end it checks what must always hold: no final name holds bytes other
// than those pushed under it, the byte counters of every living agent balance, each node received
// over a link what its neighbour sent, and no program has panicked.
//
// The tests are named after the catalogue of faults; docs/faults.md lists them.
package faults
