// Package object is what a delivery delivers: a file or a directory, as one run
// of bytes with a length and a root, the BLAKE3 hash of all of them.
//
// A Source gives the bytes of what lies on disk; a Landing takes them and lets
// the object appear under its final name, whole and checked, or not at all. A Source
// hands out descriptors of plain files, so that bytes move by sendfile; a Landing has
// every byte in its hands once, hashes it there and writes it.
//
// A file's bytes are its own. A directory's bytes are a head and then the bytes
// of its files, in the order of the head's table and without gaps, so that no
// two can overlap. All numbers are big-endian.
//
//	head    0        4       5       6       8               12              16
//	        +--------+-------+-------+-------+---------------+---------------+
//	        | "GCDT" |version|pieces | zero  | entries (4)   |table bytes (4)|
//	        +--------+-------+-------+-------+---------------+---------------+
//	     16 | table: one entry after the other               |
//	        +------------------------------------------------+
//
//	entry   0       1       2               4               6               8
//	        +-------+-------+---------------+---------------+---------------+
//	        | kind  | zero  | permissions   | path bytes (2)| zero          |
//	        +-------+-------+---------------+---------------+---------------+
//	      8 | size (8); zero of a directory                                 |
//	        +---------------------------------------------------------------+
//	     16 | path, relative, elements separated by slashes |
//	        +-----------------------------------------------+
//	        | hashes of its pieces, 32 bytes each           |
//	        +-----------------------------------------------+
//
// In version 1 there are no hashes, and pieces is zero. In version 2 each entry has the BLAKE3 hash of each piece of its file, so that
// whoever has an earlier version of the tree can tell what it lacks (Earlier). Pieces have 2^pieces bytes, but for the last of a file.
//
// A tree has exactly one table of version 1, and one of version 2 for each size of pieces. Every directory but the outermost has an entry,
// directly before what is in it, and what is in it is sorted by the bytes of the
// names. So the same tree has the same root wherever it is read. Owners, times,
// and permissions beyond the nine bits do not belong to a directory's bytes; nor
// does its own name, which is in Info.
//
// # On disk
//
// What has not landed whole is below the directory it lands in:
//
//	DIR/.groupcast-partial/TAG/journal   which bytes are on disk; locked while a landing runs
//	DIR/.groupcast-partial/TAG/head      of a directory
//	DIR/.groupcast-partial/TAG/content   the file or the tree that is renamed to DIR/NAME
//
// TAG is derived from name, kind, length and time, so a landing of the same
// object finds what an earlier one left.
//
//	journal 0        4       5               8
//	        +--------+-------+---------------+
//	        | "GCPJ" |version| zero          |
//	        +--------+-------+---------------+---------------+
//	      8 | claims, 48 bytes each                          |
//	        +------------------------------------------------+
//
//	claim   0                       8               40              48
//	        +-----------------------+---------------+---------------+
//	        | bytes on disk (8)     | their root    | check (8)     |
//	        +-----------------------+---------------+---------------+
//
// A claim is written after what it claims was synced, and is believed only after
// the bytes were hashed again. The check is the beginning of the hash of what is
// before it; a claim that is torn ends the journal.
package object
