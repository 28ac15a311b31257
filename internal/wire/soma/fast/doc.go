// Package fast is the byte layout of replications in the fast profile: what a sender says
// to a group, and what the members and it say to each other. It encodes, decodes, seals
// and opens, and nothing else.
//
// All numbers are big-endian. Every datagram begins with the same 16 bytes, which are
// clear, but authenticated; all that follows is sealed with AES-128-GCM, unless it is said
// to be clear.
//
//	head     0       1       2               4               6               8
//	         +-------+-------+-------------------------------+---------------+
//	         | kind  | index | session (4)                   | block, high   |
//	         +-------+-------+---------------+---------------+---------------+
//	       8 | block, low    | number (6)                                    |
//	         +===============+===============================================+
//	      16 | payload                                       | tag (16)      |
//	         +-----------------------------------------------+---------------+
//
// The number counts the datagrams of one key, and is its nonce; no number is used twice. The
// session is the beginning of a salt that the sender draws anew each time it starts, and all
// keys of the session come from that salt: a sender that starts again uses other keys.
// Every 2^22 numbers the key of a direction is replaced by one derived from its first.
//
// While a session goes on, managers may replace the group's key, when somebody who has it is put out. The sender goes
// on with session and numbers, and seals what is to the group under keys from the new one; a member tries the one that it
// heard last, and then the others that it was told. JOINs come under the newest. A member's own keys stay as they were
// when it joined, and so does the key of its JOIN.
//
//	kind      direction        key       index, block                payload
//	ANNOUNCE  sender → group   group     zero                        clear: salt (16), public key (32);
//	                                                                 sealed: what is replicated; zeros
//	                                                                 up to the size that it tests
//	JOIN      member → sender  joining   zero                        clear: public key (32); sealed: who
//	                                                                 it is, zeros up to 160 bytes; if it
//	                                                                 refuses, to 400
//	WELCOME   sender → member  member's  zero, its id                the size of datagrams (2)
//	DATA      sender → group   group     which packet, which block   a packet of the object
//	PARITY    sender → group   group     64 + which shard, block     a shard of the block's code
//	ZERO      sender → group   group     zero, the first block       how many blocks of zeros (4)
//	POLL      sender → group   group     zero                        a poll
//	REPORT    member → sender  member's  zero, its id                a report
//	SEAL      sender → member  member's  zero, its id                length (8), root (32)
//	BYE       sender → member  member's  zero, its id                nothing
//	FENCE     sender → sender  the two's zero                        clear: salt of its sender (16);
//	                                                                 sealed: milliseconds since it
//	                                                                 began, or waits (4), and what
//	                                                                 it announces
//	YIELD     sender → member  member's  zero, its id                nothing
//
// Of senders that were given the same group's key by mistake, one goes on. Each answers what another announces with a FENCE, to
// the address that the announcement says, under a key that comes from both salts. Whoever repeats an announcement of a sender that is
// gone cannot write a FENCE, and nobody can repeat one to a sender that starts later. A sender that has to end by a FENCE tells its
// members with a YIELD, and they listen on. Earlier versions know neither: such a sender goes on in any case, and such a member waits
// until the sender that ended counts as silent.
//
// A member's keys, one for each direction, come from the two public keys (X25519) and
// the group's key: other members do not know them. So nobody can report in another's
// name, and the root that a member compares with is the sender's own.
//
// The object is cut into packets of one size, and 64 packets are a block, as is what remains at the
// end. PARITY is a Reed-Solomon code over a block's packets, filled with zeros to one size.
//
//	announced  kind (1), zero (1), permissions (2), length (8), seconds (8),
//	           nanoseconds (4), size of datagrams or zero (2), the sender's
//	           address (4) and port (2), name bytes (1), name
//	joining    largest datagram heard (2), receive buffer (4), bytes that it has (8),
//	           name bytes (1), name, LAN bytes (1), LAN;
//	           if it refuses: reason (1), text bytes (1), text;
//	           at its end: proof (14)
//
// A receiver that still reads what it has says so with all bits of that number set, under a key of its own, and
// is no member yet. What comes in a JOIN counts once: a sender takes none with a number that it has heard under the JOIN's key, or a
// lower one. A member that says that it has all of the object's bytes may have others: it compares their root
// with the SEAL's, and joins anew, as another, if that is not the same.
//
// Where there are managers, a JOIN proves the name that it says: by a MAC with a key that the managers give to that member alone, over
// the salt, the sender's public key, the member's, and all that it says. The sender derives all names' keys from one
// secret. Without managers, and from members of earlier versions, there are zeros.
//
// A receiver that cannot take part, as it has no room or may not write there, refuses: it says why in a JOIN that is longer than
// others, under a key of its own, a few times, and expects no answer. It can join later, as anybody can. A member that fails
// says so in a report, and before that why in such a JOIN, under its own key.
//
//	poll    0               4               8              12              16
//	        +---------------+---------------+---------------+---------------+
//	        | poll (4)      | passed (4)    | slot (4), µs  | hold (4), µs  |
//	        +-------+-------+-------+-------+-------+-------+---------------+
//	     16 |members| every | turn  | slowest (2) ..| root (32), zero if not known
//	        +-------+-------+-------+-------+-------+-------------------
//
// Members, every, turn and slowest have two bytes each. Blocks before passed were sent at least once.
// A member answers at once if it is the slowest or if its id and turn are the same modulo
// every; it asks for what it misses in its slot, and again only after hold.
//
//	report  0               4               8                              16
//	        +---------------+---------------+-------------------------------+
//	        | poll (4)      | held (4), µs  | seen (8)                      |
//	        +---------------+---------------+---------------+---+---+-------+
//	     16 | received (8)                  | frontier (4)  | s | r | taken |  s state (1), r reason (1)
//	        +-------------------------------+---------------+---+---+-------+
//	     32 | root (32), zero until it is complete          | wants, 16 bytes each
//	        +-----------------------------------------------+
//
//	want    0               4       6   7   8                              16
//	        +---------------+-------+---+---+-------------------------------+
//	        | block (4)     | run   | n | 0 | missing (8): bit i is packet i|
//	        +---------------+-------+---+---+-------------------------------+
//
// Taken counts what came that was of use, from one on and over and over; members of an earlier version have zero there.
// A want with a run is for so many whole blocks. One without is for n more packets, of data
// or parity, of a block that misses those.
package fast
