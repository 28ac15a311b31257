package object

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"io/fs"
)

// Limits of a directory's table.
const (
	MaxEntries = 1_000_000
	MaxTable   = 64 << 20 // bytes
)

const (
	magic     = "GCDT"
	headSize  = 16 // before the table
	entrySize = 16 // before the path
)

// Versions of a head.
const (
	plain  = 1
	hashed = 2 // it has the hash of each piece of the files
)

// entry is a file or a directory of a tree.
type entry struct {
	path   string
	kind   Kind
	mode   fs.FileMode
	size   uint64
	hashes string // of its pieces, one behind the other; empty in a plain head
	start  uint64 // offset of its first byte in the object; not in the table
}

func (e *entry) end() uint64 { return e.start + e.size }

// appendHead writes the head of a directory with these entries, which a rules
// has accepted. Their hashes are of pieces of this size.
func appendHead(to []byte, entries []entry, size pieceSize) []byte {
	table := 0
	for i := range entries {
		table += entrySize + len(entries[i].path) + len(entries[i].hashes)
	}
	to = append(to, magic...)
	to = append(to, size.version(), byte(size), 0, 0)
	to = binary.BigEndian.AppendUint32(to, uint32(len(entries)))
	to = binary.BigEndian.AppendUint32(to, uint32(table))
	for i := range entries {
		to = appendEntry(to, &entries[i])
	}
	return to
}

func appendEntry(to []byte, e *entry) []byte {
	to = append(to, byte(e.kind), 0)
	to = binary.BigEndian.AppendUint16(to, uint16(e.mode))
	to = binary.BigEndian.AppendUint16(to, uint16(len(e.path)))
	to = append(to, 0, 0)
	to = binary.BigEndian.AppendUint64(to, e.size)
	to = append(to, e.path...)
	return append(to, e.hashes...)
}

// opening is what a head begins with.
type opening struct {
	entries, table uint32
	pieces         pieceSize
}

func (o opening) head() uint64 { return headSize + uint64(o.table) }

// parseOpening reads the first headSize bytes of a head.
func parseOpening(from []byte) (opening, error) {
	_ = from[headSize-1]
	o := opening{binary.BigEndian.Uint32(from[8:]), binary.BigEndian.Uint32(from[12:]), pieceSize(from[5])}
	switch {
	case string(from[:4]) != magic:
		return opening{}, fmt.Errorf("%w: it begins with %q", ErrTable, from[:4])
	case from[4] != plain && from[4] != hashed:
		return opening{}, fmt.Errorf("%w: version %d: want %d or %d", ErrTable, from[4], plain, hashed)
	case from[4] == plain && from[5] != 0 || from[6] != 0 || from[7] != 0:
		return opening{}, fmt.Errorf("%w: bytes that must be zero are not", ErrTable)
	case from[4] == hashed && !o.pieces.isAllowed():
		return opening{}, fmt.Errorf("%w: pieces of 2^%d bytes: want 2^%d to 2^%d", ErrTable, from[5], leastPiece, mostPiece)
	case o.entries > MaxEntries:
		return opening{}, fmt.Errorf("%w: %d entries: want at most %d", ErrTable, o.entries, MaxEntries)
	case o.table > MaxTable:
		return opening{}, fmt.Errorf("%w: %d bytes: want at most %d", ErrTable, o.table, MaxTable)
	case uint64(o.table) < uint64(o.entries)*(entrySize+1) || o.entries == 0 && o.table != 0:
		return opening{}, fmt.Errorf("%w: %d entries in %d bytes", ErrTable, o.entries, o.table)
	}
	return o, nil
}

// parseHead reads a whole head. With the files it must make up exactly length bytes.
func parseHead(from []byte, length uint64) (*layout, error) {
	if len(from) < headSize {
		return nil, fmt.Errorf("%w: a head of %d bytes", ErrTable, len(from))
	}
	opening, err := parseOpening(from)
	if err != nil {
		return nil, err
	}
	if opening.head() != uint64(len(from)) || opening.head() > length {
		return nil, fmt.Errorf("%w: it announces %d bytes: there are %d, of an object of %d", ErrTable, opening.head(), len(from), length)
	}
	var (
		text    = string(from) // one copy that all paths share
		entries = make([]entry, opening.entries)
		rules   = newRules(opening.head(), length)
		at      = headSize
	)
	for i := range entries {
		if at, err = parseEntry(text, at, opening.pieces, &entries[i]); err == nil {
			err = rules.admit(entries[:i+1])
		}
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
	}
	if at != len(text) {
		return nil, fmt.Errorf("%w: %d bytes follow the last entry", ErrTable, len(text)-at)
	}
	if rules.end != length {
		return nil, fmt.Errorf("%w: it makes up %d bytes of %d", ErrTable, rules.end, length)
	}
	return &layout{head: opening.head(), end: length, entries: entries, pieces: opening.pieces}, nil
}

// parseEntry reads the entry at a place and returns the place after it.
func parseEntry(text string, at int, pieces pieceSize, e *entry) (int, error) {
	if len(text)-at < entrySize {
		return 0, fmt.Errorf("%w: it ends within an entry", ErrTable)
	}
	fixed := []byte(text[at : at+entrySize])
	if fixed[1] != 0 || fixed[6] != 0 || fixed[7] != 0 {
		return 0, fmt.Errorf("%w: bytes that must be zero are not", ErrTable)
	}
	at += entrySize
	size := int(binary.BigEndian.Uint16(fixed[4:]))
	if len(text)-at < size {
		return 0, fmt.Errorf("%w: it ends within a path", ErrTable)
	}
	e.kind, e.mode = Kind(fixed[0]), fs.FileMode(binary.BigEndian.Uint16(fixed[2:]))
	e.size = binary.BigEndian.Uint64(fixed[8:])
	e.path = text[at : at+size]
	at += size
	hashes := pieces.hashes(e.size)
	if hashes > uint64(len(text)-at) {
		return 0, fmt.Errorf("%w: it ends within the hashes of %q", ErrTable, e.path)
	}
	e.hashes = text[at : at+int(hashes)]
	return at + int(hashes), nil
}

// rules says, entry by entry, whether a table may be, and where each file's
// bytes are. Sender and receivers go by the same.
type rules struct {
	end    uint64 // of the bytes that have a place
	length uint64 // no byte is beyond
	within []string
	seed   maphash.Seed
	folded map[uint64]int // hash of the folded path → entry
}

func newRules(head, length uint64) *rules {
	return &rules{end: head, length: length, seed: maphash.MakeSeed(), folded: make(map[uint64]int)}
}

// admit checks the last of the entries against those before, and gives it its place.
func (r *rules) admit(entries []entry) error {
	last := len(entries) - 1
	e := &entries[last]
	if err := checkPath(e.path); err != nil {
		return fmt.Errorf("%w: %w", ErrTable, err)
	}
	switch {
	case e.kind != File && e.kind != Directory:
		return fmt.Errorf("%w: %q is of unknown %v", ErrTable, e.path, e.kind)
	case e.mode&^fs.ModePerm != 0:
		return fmt.Errorf("%w: %q has mode %#o: only permission bits are delivered", ErrTable, e.path, uint32(e.mode))
	case e.kind == Directory && e.size != 0:
		return fmt.Errorf("%w: %q is a directory of %d bytes", ErrTable, e.path, e.size)
	case e.size > r.length-r.end:
		return fmt.Errorf("%w: %q of %d bytes does not fit into an object of %d", ErrTable, e.path, e.size, r.length)
	case last > 0 && compare(entries[last-1].path, e.path) >= 0:
		return fmt.Errorf("%w: %q after %q", ErrTable, e.path, entries[last-1].path)
	}
	if err := r.descend(e); err != nil {
		return err
	}
	if err := r.distinguish(entries); err != nil {
		return err
	}
	e.start, r.end = r.end, r.end+e.size
	return nil
}

// descend checks that an entry is in a directory that is open: one that has an
// entry, with nothing but its own contents since.
func (r *rules) descend(e *entry) error {
	up := parent(e.path)
	for len(r.within) > 0 && r.within[len(r.within)-1] != up {
		r.within = r.within[:len(r.within)-1]
	}
	if up != "" && len(r.within) == 0 {
		return fmt.Errorf("%w: %q is in no directory of the table", ErrTable, e.path)
	}
	if e.kind == Directory {
		r.within = append(r.within, e.path)
	}
	return nil
}

// distinguish refuses an entry that a file system which folds case, or
// normalizes Unicode, takes for one before.
func (r *rules) distinguish(entries []entry) error {
	last := len(entries) - 1
	key := fold(entries[last].path)
	for hash := maphash.String(r.seed, key); ; hash++ {
		other, taken := r.folded[hash]
		if !taken {
			r.folded[hash] = last
			return nil
		}
		if fold(entries[other].path) == key {
			return fmt.Errorf("%w: %q and %q are one name where case or Unicode form does not count",
				ErrTable, entries[other].path, entries[last].path)
		}
	}
}
