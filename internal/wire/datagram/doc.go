// Package datagram is the byte layout of datagram streams: of the datagrams that go from neighbour
// to neighbour in a delivery's tree, and of the reports about them that come back, which are
// datagrams, too. It encodes, decodes, seals and opens, and nothing else.
//
// All numbers are big-endian. A datagram belongs to a link, which both ends opened over
// TLS: the keys, one for each direction, and the link's name are exported from that
// handshake, so that nobody but the two ends can make or read a datagram of the link.
//
//	datagram 0                       8                       16
//	         +-----------------------+-----------------------+
//	         | link (8)              | number (8)            |  clear, but authenticated
//	         +=======================+=======================+
//	      16 | departure (8)         | sequence (8)          |  sealed: AES-128-GCM, the
//	         +-----------------------+-----------+---+---+---+  nonce is the number
//	      32 | sent (8)              | round trip| k | n | i |
//	         +-----------------------+---(4)-----+---+---+---+  k kind (1), n count (1),
//	      48 | payload (0 to 1168)                           |  i index (2)
//	         +-----------------------------------------------+
//	         | tag (16)                                      |
//	         +-----------------------------------------------+
//
// The number counts the datagrams of the link in one direction. Departure is when the datagram
// left, in microseconds of its sender's own clock, and the round trip is the sender's estimate for
// the link, in microseconds: both are for congestion control. The sequence counts what the stream's
// sender was given, and sent is when it was given, in microseconds since 1970 by the managers'
// clock; these two stay the same from link to link. Sequences and numbers must be below 2^62:
// others are refused.
//
//	kind    direction  sequence           count, index          payload
//	DATA    down       its own            zero                  what was given, up to 1158 bytes
//	PARITY  down       of the first that  how many it protects, a shard of the Reed-Solomon
//	                   it protects        which shard it is     code over their blocks
//	REPORT  up         zero               zero                  a report, 56 bytes; where it comes
//	                                                            from is where the child is
//
// What parity protects of a DATA is its block: sent (8), the payload's length (2), and the payload,
// padded with zeros to the longest of the window.
//
//	report  0                       8                       16
//	        +-----------------------+-----------------------+
//	        | number (8)            | departure (8)         |  of the last that came
//	        +-----------------------+-----------------------+
//	     16 | held for (8), µs      | received (8)          |  since it came; datagrams in all
//	        +-----------------------+-----------------------+
//	     32 | lost (8)              | bytes per second (8)  |  in all; of late
//	        +-----------------------+-----------------------+
//	     48 | loss event rate (8)   |                          in billionths
//	        +-----------------------+
package datagram
