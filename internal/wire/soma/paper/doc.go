// Package paper is the byte layout of SOMA's packets as its paper has them (004 §III-B). It
// encodes and decodes, and nothing else.
//
// All numbers are big-endian. A packet is the whole of one UDP datagram:
//
//	0       4     5       7       11
//	+-------+-----+-------+-------+----------------------+
//	| SN    | TOP | PL    | LWSN  | payload              |
//	| (4)   | (1) | (2)   | (4)   | (512, or as chosen)  |
//	+-------+-----+-------+-------+----------------------+
//
//	SN    sequence number. The first packet of a transfer has 1; 0 is never used.
//	TOP   type of packet, below.
//	PL    the packet's whole length in bytes, header and payload.
//	LWSN  sequence number of the last packet of the window.
//
//	TOP                from       SN                          LWSN          payload
//	1 DATA             server     its own                     its window's  up to 65496 bytes
//	2 ACK              a client   of its window's last packet the same      none
//	3 NACK             a client   of the packet that came     its window's  none
//	                              where another was expected
//	4 REPAIR-REQUEST   a client   of the packet that lacks    the same      none
//	5 REPAIR-RESPONSE  server     of the packet asked for     the last      as DATA
//	                                                          packet's
//
// The paper does not say how a client knows that the file is over. Here the last packet
// is a DATA without payload, and the one before it may be shorter than all others.
package paper
