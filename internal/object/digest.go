package object

import (
	"errors"
	"fmt"
	"io"

	"github.com/groupcast/groupcast/internal/digest"
	"github.com/groupcast/groupcast/internal/pulse"
)

// tally is the hash of an object's first bytes. A copy goes on by itself.
type tally struct {
	hash   digest.Hash
	offset uint64 // all before it is hashed
}

func (t *tally) add(p []byte) {
	_, _ = t.hash.Write(p) // it never fails
	t.offset += uint64(len(p))
}

// root returns the root of what is hashed so far.
func (t *tally) root() Root { return t.hash.Sum() }

// piece is how much is read and hashed at once: what stays in a core's cache.
const piece = 256 << 10

// rehash hashes what is on disk, from the first byte on.
type rehash struct {
	tally
	from   cursor
	buffer []byte
	pulse  *pulse.Pulse
}

func newRehash(from cursor, beats *pulse.Pulse) *rehash {
	return &rehash{from: from, buffer: make([]byte, piece), pulse: beats}
}

// advance hashes at most a piece, and nothing from upTo on.
func (r *rehash) advance(l *layout, upTo uint64) error {
	part, err := r.next(l, upTo)
	if err == nil {
		r.add(part)
	}
	return err
}

// next reads at most a piece, and nothing from upTo on. It is good until the next one.
func (r *rehash) next(l *layout, upTo uint64) ([]byte, error) {
	file, position, left, err := r.from.at(l, r.offset)
	if err != nil {
		return nil, err
	}
	part := r.buffer[:min(piece, left, upTo-r.offset)]
	n, err := file.ReadAt(part, int64(position))
	r.pulse.Beat()
	if n < len(part) {
		return nil, fmt.Errorf("read %s at %d: %w", file.Name(), position, unexpected(err))
	}
	return part, nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (r *rehash) close() error { return r.from.close() }
