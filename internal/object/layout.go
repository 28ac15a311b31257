package object

import (
	"errors"
	"os"
	"sort"

	"github.com/groupcast/groupcast/internal/pulse"
)

// headIndex stands for the head where others are indices of entries.
const headIndex = -1

// layout says which file holds which bytes of an object. It does not change; as
// more of a head becomes known, another takes its place.
type layout struct {
	head    uint64 // length of the head; of a file, zero
	end     uint64 // of the bytes whose file is known
	entries []entry
	pieces  pieceSize // of which entries have hashes
}

// fileLayout is of an object that is one file.
func fileLayout(path string, info Info) *layout {
	return &layout{end: info.Length, entries: []entry{{path: path, kind: File, mode: info.Mode, size: info.Length}}}
}

// at returns the file with the byte at offset, which must be before the end,
// where in it, and how many of the object's bytes are there from then on.
func (l *layout) at(offset uint64) (index int, position, left uint64) {
	if offset < l.head {
		return headIndex, offset, l.head - offset
	}
	index = sort.Search(len(l.entries), func(i int) bool { return l.entries[i].start > offset }) - 1
	e := &l.entries[index]
	return index, offset - e.start, e.end() - offset
}

// cursor walks over the files of a layout with one of them open.
type cursor struct {
	open  func(l *layout, index int) (*os.File, error)
	index int
	file  *os.File
	size  uint64
	// before has what was written to a file go to the disk by beats before it is closed; nil where that does not wait for the disk.
	before *pulse.Pulse
}

// at opens the file with the byte at offset, if it is not the one that is open.
func (c *cursor) at(l *layout, offset uint64) (file *os.File, position, left uint64, err error) {
	index, position, left := l.at(offset)
	if c.file != nil && c.index == index {
		return c.file, position, left, nil
	}
	if err := c.close(); err != nil {
		return nil, 0, 0, err
	}
	file, err = c.open(l, index)
	if err != nil {
		return nil, 0, 0, err
	}
	c.file, c.index, c.size = file, index, position+left
	return file, position, left, nil
}

func (c *cursor) close() error {
	file := c.file
	c.file = nil
	if file == nil {
		return nil
	}
	return errors.Join(c.before.Flush(file, 0, c.size), file.Close())
}
