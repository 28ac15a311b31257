// Package multicast opens the sockets of replication: one that hears a group, one that speaks
// to it and is spoken to.
//
// A socket that hears a group is bound to the group's address and port, and does not take
// what other sockets of the host have joined (IP_MULTICAST_ALL off): two groups on one port
// do not hear each other. The network interface is always named, for the one that the
// routing table would choose is often another; so is how many routers a packet may pass.
package multicast
