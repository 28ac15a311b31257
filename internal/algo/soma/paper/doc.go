// Package paper is SOMA's sender and receiver to the letter of its paper (004 §III), as two
// machines that are told what happens and when, and answer with what is to be done.
//
// A transfer has two phases (§III-A):
//
//	            multicast phase                        unicast phase
//	server   ┌▶ send a window ─▶ wait for one ACK     answer REPAIR-REQUESTs,
//	         │    of each LAN, or for the timeout     until no more come
//	         └── change timeout and window ◀┘
//
//	client   store DATA, mark what is missing (NACK); ask for each packet marked, one
//	         compete for the ACK of each window       after the other
//
// The packets of a transfer have the numbers 1, 2, 3 and so on. What the paper leaves open,
// and what is done here:
//
//   - how a client knows the end: a DATA without payload is the last; the one before may be
//     shorter than all others
//   - how a client knows where a payload belongs: before it are as many of the greatest
//     payload as packets
//   - which LANs take part: those that the server is told, and, if it is told how large they
//     are, those from which something comes
//   - what becomes of a LAN that is silent for long, of requests and answers that are lost, and
//     of a client that hears nothing more: each has its time limit
//   - which clients a NACK is for: the server alone
//
// The machines have no clock, socket or file: the payloads stay with the caller.
package paper
