// Package datagram holds the rules of datagram streams: what a member counts and what it
// hands on (Account, Seen), what a child finds out about the loss on its link (Losses),
// what its parent may send then (Pace), and when it has to stop (Breaker).
//
// Every link of a tree is a path of its own, with its own loss and its own rate. So each has the
// congestion control that RFC 8085, section 3.1.1, asks of an application like this: TFRC (RFC
// 5348), driven by the child's reports. Section 3.1.10 also wants a circuit breaker (RFC 8084).
// What a link may not carry is dropped for its child alone: children fed over other links lose
// nothing.
package datagram
