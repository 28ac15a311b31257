package object

import (
	"context"
	"fmt"
	"os"

	"github.com/groupcast/groupcast/internal/digest"
	"github.com/groupcast/groupcast/internal/pulse"
)

// pieceSize is the logarithm of the size of the pieces that a head has the hashes of. Pieces of each file begin at its first byte; the
// last may be shorter. Zero is a head without hashes.
type pieceSize uint8

const (
	leastPiece pieceSize = 12
	usualPiece pieceSize = 16
	mostPiece  pieceSize = 24 // it is held in memory
	// mostHashes is how many bytes of hashes a head has at most, unless twice as many as one for each file are more and the table has
	// room for them: pieces are made larger until then.
	mostHashes = 4 << 20
)

func (p pieceSize) isAllowed() bool { return leastPiece <= p && p <= mostPiece }

func (p pieceSize) version() byte {
	if p == 0 {
		return plain
	}
	return hashed
}

// count returns how many pieces a file of a size has.
func (p pieceSize) count(size uint64) uint64 {
	if p == 0 {
		return 0
	}
	count := size >> p
	if size&(1<<p-1) > 0 {
		count++
	}
	return count
}

// hashes returns how many bytes of hashes the table has of a file of a size.
func (p pieceSize) hashes(size uint64) uint64 { return p.count(size) * digest.Size }

// piecesFor returns the size of pieces for files of these sizes: the same for all who have them.
func piecesFor(entries []entry) pieceSize {
	var files, table uint64
	for i := range entries {
		table += entrySize + uint64(len(entries[i].path))
		if entries[i].size > 0 {
			files++
		}
	}
	most := min(max(mostHashes, 2*files*digest.Size), MaxTable-min(MaxTable, table))
	pieces := usualPiece
	for pieces < mostPiece && hashesOf(entries, pieces) > most {
		pieces++
	}
	return pieces
}

// hashesOf returns how many bytes of hashes a table has.
func hashesOf(entries []entry, pieces pieceSize) (bytes uint64) {
	for i := range entries {
		bytes += pieces.hashes(entries[i].size)
	}
	return bytes
}

// hashPieces reads all files that were found, for a head that has their hashes, if such a head is allowed.
func (s *survey) hashPieces(ctx context.Context, each Reading) error {
	plain, _, err := s.table()
	if err != nil {
		return err
	}
	s.pieces = piecesFor(s.entries)
	if table := uint64(len(plain)-headSize) + hashesOf(s.entries, s.pieces); table > MaxTable {
		return fmt.Errorf("%w: with the hashes of its files it has %d bytes: want at most %d; without them it can be sent", ErrTable, table, MaxTable)
	}
	all, before := s.length(0), uint64(0)
	reader := pieceReader{size: s.pieces, pulse: pulse.Of(ctx)}
	read := func(bytes uint64) {
		before += bytes
		each(before, all)
	}
	for i := range s.entries {
		e := &s.entries[i]
		if e.size == 0 {
			continue
		}
		if err := s.hashFile(ctx, e, s.seen[i], &reader, read); err != nil {
			return fmt.Errorf("hash the pieces of %s: %w", e.path, err)
		}
	}
	return nil
}

func (s *survey) hashFile(ctx context.Context, e *entry, seen identity, reader *pieceReader, each func(bytes uint64)) error {
	file, info, err := openPlain(s.root, e.path, os.O_RDONLY)
	if err != nil {
		return changedIfGone(e.path, err)
	}
	defer func() { _ = file.Close() }() // it was only read
	if identify(info) != seen {
		return ErrChanged
	}
	hashes := make([]byte, 0, s.pieces.hashes(e.size))
	for i := range s.pieces.count(e.size) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		content, sum, err := reader.read(file, e.size, i)
		if err != nil {
			return err
		}
		hashes = append(hashes, sum[:]...)
		each(uint64(len(content)))
	}
	e.hashes = string(hashes)
	return nil
}

// pieceReader reads pieces of files, one at a time.
type pieceReader struct {
	size   pieceSize
	buffer []byte
	pulse  *pulse.Pulse
}

// read returns a piece of a file, which is good until the next one is read, and its hash.
func (r *pieceReader) read(file *os.File, size, index uint64) (content []byte, sum Root, err error) {
	begin := index << r.size
	length := min(size-begin, 1<<r.size)
	if uint64(len(r.buffer)) < length {
		r.buffer = make([]byte, length)
	}
	content = r.buffer[:length]
	var hash digest.Hash
	for read := uint64(0); read < length; {
		part := content[read:min(read+piece, length)]
		n, err := file.ReadAt(part, int64(begin+read))
		r.pulse.Beat()
		if n < len(part) {
			return nil, Root{}, fmt.Errorf("read at %d: %w", begin+read, unexpected(err))
		}
		_, _ = hash.Write(part) // it never fails
		read += uint64(n)
	}
	return content, hash.Sum(), nil
}
