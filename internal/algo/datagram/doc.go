// Package datagram holds the rules of datagram streams: what a member counts and what it
// hands on (Account, Seen), what a child finds out about the loss on its link (Losses),
// what its parent may send then (Pace), and when it has to stop (Breaker).
//
// Why it is so: docs/decisions.md#datagrams.
//
// Every link of a tree is a path of its own, with its own loss and its own rate. So each
// has the congestion control that RFC 8085, section 3.1.1, asks of an application like
// this: TFRC (RFC 5348), driven by reports of the child. Its section 3.1.10 wants a circuit
// breaker besides (RFC 8084). What a link may not carry is lost to its child
// alone: children that are fed over other links lose nothing.
package datagram
