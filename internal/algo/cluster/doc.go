// Package cluster finds out which nodes of a network are near each other, from the round
// trips that they have measured.
//
// The rule, and where it comes from:
//
//   - "Put two hosts in the same cluster only if they share a router or the unicast latency
//     between them is less than a specified threshold" (002 §3.1.2). Which nodes share a router is
//     what labels say: a node that has a label is of that cluster. Any other is of a cluster
//     if no round trip between it and one of its nodes is known to be longer than the
//     threshold: a chain of near nodes does not put its two ends together.
//   - Only a part of the pairs is measured, so a few of a cluster's nodes must be known to
//     be near, and none to be far.
//   - What is in a cluster stays there until its round trips exceed the threshold by half:
//     noise around the threshold moves nobody.
//   - A round trip between two nodes is the longer of what both say, and nothing while one
//     of them is silent: nobody comes nearer to others by saying so.
//   - Of what a node has said lately the shortest counts. A full queue makes a round trip
//     longer, nothing makes it shorter than the path.
//
// What a node measures next follows from what is known: first a few landmarks, from whose
// distances the triangle inequality tells which nodes cannot be near; then nodes that may be, as
// many as decide where it belongs; then one node of each other cluster; and again whatever
// has become old.
//
// Everything depends on the set of nodes and what was measured alone, not on any order.
package cluster
