// Package link emulates one link between two machines: what a cable, and the
// router port in front of it, do to packets.
//
// A Shaper is one direction as a pure state machine. Time is an argument and
// randomness is seeded, so that the same packets at the same times meet the
// same fate:
//
//	Enter ─▶ drop-tail queue ─▶ serialization clock ─▶ loss, damage ─▶ delay line ─▶ Leave
//	           limit in packets     size ÷ rate,           seeded,        fixed time,
//	           or bytes             exact                  one stream     order kept
//	                                                       per effect
//
// A packet is in the queue from its arrival until its last bit is on the wire,
// so a queue of 200 packets drops the 201st of a burst. Sizes are those of IP
// packets; a link-layer header is carried but neither counted nor clocked.
//
// A Direction is the thin shell: one locked thread that moves packets from one
// TUN or TAP end, through a Shaper, to the other end.
package link
