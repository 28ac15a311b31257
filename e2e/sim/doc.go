// Package sim runs whole services in one process, over a network in memory and in virtual time: the
// manager with its embedded etcd, or three managers with one store, session agents, and members
// that send and receive through the SDK. Only the network is replaced: every gRPC call and every
// link goes over internal/simnet, and every byte lands in real files.
//
// A seed draws a scenario (agents, members, policies, objects and streams, sizes, caches, rates) and a
// schedule of faults. oracle_test.go contains what has to hold whatever happens.
//
//	go test ./e2e/sim                       some hundred seeds
//	make sim SEEDS=10000                    more
//	go test ./e2e/sim -run Seeds -seed 42   one again, with the log
//
// The same seed gives the same scenario and the same faults at the same times. Keys, identifiers
// and the order in which goroutines run are left to chance, so a seed that seldom fails has to be
// run several times: -again N does that.
package sim
