// Package relay is the byte layout of a link between two neighbours in a
// delivery's tree: the handshake by which a child asks its parent for a delivery
// from an offset, and the frames that follow. It encodes and decodes, and nothing
// else: every length is checked before anything is allocated, and what cannot be
// right is an error, never a panic.
//
// All numbers are big-endian.
//
// A child opens each stripe with a hello; the parent answers with a welcome, or with
// a BYE frame that says why not. Only the sender, whom nobody can dial, opens its
// link as the parent: it offers, with flag 1, and the welcome tells from where it is
// to send. With flag 2, all that follows the hello and the welcome is plaintext. With flag 4 it is
// one more stripe of the link that the two have already: from offset means nothing then.
// stripes is how many the dialling end opens at most. With flag 8, the delivery comes in
// datagrams (internal/wire/datagram), and the link carries STATUS and BYE alone.
//
//	hello   0        4       5       6       7       8
//	        +--------+-------+-------+-------+-------+
//	        | "GCRL" |version|stripe |stripes| flags |
//	        +--------+-------+-------+-------+-------+--------+
//	      8 | delivery (16 bytes)                             |
//	        +-------------------------+-----------------------+
//	     24 | tree version (8)        | from offset (8)       |
//	        +----------------+--------+-----------------------+
//	     40 | capability length (2)   | capability (0 to 4096)|
//	        +-------------------------+-----------------------+
//
//	welcome 0        4       5               8                       16
//	        +--------+-------+---------------+-----------------------+
//	        | "GCRL" |version| zero          | tree version (8)      |
//	        +--------+-------+---------------+-----------------------+
//	     16 | from offset (8)                                        |
//	        +--------------------------------------------------------+
//
// Then both sides send frames: a header of fixed size and a payload. A child that asks need not
// wait for the welcome before it sends its first frames.
//
//	frame   0       1       2               4                       8
//	        +-------+-------+---------------+-----------------------+
//	        | type  | flags | zero          | payload length (4)    |
//	        +-------+-------+---------------+-----------------------+
//	      8 | offset (8)                                            |
//	        +-------------------------------------------------------+
//	     16 | tree version (8)                                      |
//	        +-------------------------------------------------------+
//	     24 | payload                                               |
//	        +-------------------------------------------------------+
//
//	type    direction  offset                       payload
//	DATA    down       of the first byte            1 byte to 16 MiB of the delivery
//	END     down       length of the object         its root hash, 32 bytes
//	ACK     up         all before it is acknowledged none; flags hold the ack level
//	CREDIT  up         all before it may be sent    none
//	STATUS  both       how much the sender of it has none; says that it lives
//	STRIPES down       how many stripes there should be none; the child opens them
//	BYE     both       where it stopped             reason (2), then text of up to 256 bytes
//
// On a link of several stripes any of them carries any frame. What comes on one stripe has gaps
// that others fill; what was on its way on a stripe that broke comes again on another. At most 4096 pieces
// that do not touch each other may have come ahead: more ends the link. END is
// said on each stripe when nothing is left to be sent.
//
// The level of an agent's ACK is that of its members end to end, and relayed hop by hop. Of a stream, it sends hop by hop in addition
// what all members below it have received; that may go back, as when a member comes from another agent.
//
// A child that asks for a part of a stream that nobody has any more gets a BYE, not_kept, whose offset is that from which on there
// is something.
//
// Offsets are absolute, so a frame that comes twice, or late, does no harm, and a child that
// returns needs only one number to say what it has.
package relay
