// Package fast has the rules of the fast profile of replication: what a sender sends next,
// at which pace, and whom it asks; what a member wants, and when it says so.
//
// It keeps what paper 004 found: one stream for all, a window that follows the slowest LAN,
// feedback that does not grow with the members, first losses before anything else. It leaves
// the paper where that stops short (docs/divergences.md): the window is of packets in flight,
// not of packets per answer, so that nothing waits for an answer; it follows the delay of
// the slowest instead of a timeout; and what is lost is repaired while the transfer runs,
// by parity when several want a block, since one shard repairs whatever each of them lost.
//
// The rules move no bytes: they speak of blocks and packets by number.
package fast
