package object

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Item is a file or a directory in a directory's bytes.
type Item struct {
	Path   string
	Kind   Kind
	Mode   fs.FileMode
	Offset uint64 // of its first byte
	Size   uint64
}

// ErrManyItems says that a directory has more in it than its reader takes.
var ErrManyItems = errors.New("too many items")

// Items reads the head of a directory's bytes: what is in it, and where. All that a table must not have is an error. If there are
// more than so many, the table is not read.
func Items(from io.ReaderAt, length uint64, most int) ([]Item, error) {
	read := func(size uint64) ([]byte, error) {
		head, err := readHead(from, size)
		if err != nil || size != headSize {
			return head, err
		}
		if begins, err := parseOpening(head); err == nil && int(begins.entries) > most {
			return nil, fmt.Errorf("%w: %d, want at most %d", ErrManyItems, begins.entries, most)
		}
		return head, nil
	}
	known, err := layoutOf(read, length)
	if err != nil {
		return nil, err
	}
	items := make([]Item, len(known.entries))
	for i, e := range known.entries {
		items[i] = Item{e.path, e.kind, e.mode, e.start, e.size}
	}
	return items, nil
}

// Whole compares length and root of a file that has landed, and returns it to be read, until the landing ends. It does not
// appear: what is in it is for somebody else. After ErrDamaged the partial is gone.
func (l *Landing) Whole(length uint64, root Root) (*os.File, error) {
	content, err := l.Content()
	if err != nil {
		return nil, err
	}
	switch now := l.progress.now(); {
	case length != l.info.Length:
		return nil, l.damaged(fmt.Errorf("%w: it has %d bytes and %d were announced", ErrDamaged, length, l.info.Length))
	case now.landed != length:
		return nil, fmt.Errorf("read %s: %d bytes of %d have landed", l.info.Name, now.landed, length)
	}
	if hashed := l.progress.tally.root(); hashed != root {
		return nil, l.damaged(fmt.Errorf("%w: its root is %v, want %v", ErrDamaged, hashed, root))
	}
	return content, nil
}
