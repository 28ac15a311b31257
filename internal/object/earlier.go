package object

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sort"

	"github.com/groupcast/groupcast/internal/pulse"
)

// Earlier is the directory that has a landing's name, compared piece by piece with the one that lands: what it has of that need not come
// again. Everything that is taken from it is hashed again then, so that it may change meanwhile.
type Earlier struct {
	root      *os.Root
	layout    *layout
	reader    pieceReader
	elsewhere map[string]string // from the paths of files that land to those where they are compared, if these are others
	runs      []run
	least     uint64 // a run of fewer bytes is not worth to be taken
	forgets   uint64 // how much it forgot last
}

// run is what an earlier directory has of an object: the bytes between two offsets.
type run struct{ from, to uint64 }

// Earlier opens what has the landing's name, if the landing is of a directory whose head has landed, and has hashes. It returns nil if
// there is nothing to compare. A pulse in ctx beats with all that is read of it.
func (l *Landing) Earlier(ctx context.Context) (*Earlier, error) {
	now, err := l.usable()
	if err != nil || now.layout.pieces == 0 {
		return nil, err
	}
	if there, err := l.partial.dir.Lstat(l.info.Name); err != nil || !there.IsDir() {
		return nil, ignoreMissing(err)
	}
	root, err := l.partial.dir.OpenRoot(l.info.Name)
	if err != nil {
		return nil, fmt.Errorf("open the earlier %s: %w", l.info.Name, err)
	}
	return &Earlier{
		root: root, layout: now.layout, reader: pieceReader{size: now.layout.pieces, pulse: pulse.Of(ctx)}, elsewhere: make(map[string]string),
	}, nil
}

// Compare reads the earlier directory, as far as it may have something of the one that lands.
func (e *Earlier) Compare(ctx context.Context) error {
	if err := e.find(ctx); err != nil {
		return fmt.Errorf("look for what was renamed: %w", err)
	}
	for i := range e.layout.entries {
		if err := e.compareFile(ctx, &e.layout.entries[i]); err != nil {
			return fmt.Errorf("compare %s: %w", e.layout.entries[i].path, err)
		}
	}
	return nil
}

// compareFile compares a file with the earlier one at its path, or where else it was found. What is no file there, or cannot be read,
// has to come.
func (e *Earlier) compareFile(ctx context.Context, now *entry) error {
	if now.size == 0 {
		return nil
	}
	file, size := e.open(now)
	if file == nil {
		return ctx.Err()
	}
	defer func() { _ = file.Close() }() // it was only read
	for i := range e.layout.pieces.count(now.size) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, same := e.piece(file, size, now, i); same {
			begin := now.start + i<<e.layout.pieces
			e.add(run{begin, min(begin+1<<e.layout.pieces, now.end())})
		}
	}
	return nil
}

// open opens the earlier file that one that lands is compared with, and returns its size. It returns nil if there is none.
func (e *Earlier) open(now *entry) (*os.File, uint64) {
	path, isElsewhere := e.elsewhere[now.path]
	if !isElsewhere {
		path = now.path
	}
	file, info, err := openPlain(e.root, path, os.O_RDONLY)
	if err != nil {
		return nil, 0
	}
	return file, uint64(info.Size())
}

// piece reads a piece of an earlier file of a size, and reports whether it is that of the file that lands.
func (e *Earlier) piece(file *os.File, size uint64, now *entry, number uint64) (content []byte, same bool) {
	if size < min((number+1)<<e.layout.pieces, now.size) {
		return nil, false
	}
	content, sum, err := e.reader.read(file, now.size, number)
	return content, err == nil && string(sum[:]) == now.hashes[number*uint64(len(sum)):][:len(sum)]
}

func (e *Earlier) add(has run) {
	if last := len(e.runs) - 1; last >= 0 && e.runs[last].to == has.from {
		e.runs[last].to = has.to
		return
	}
	e.runs = append(e.runs, has)
}

// Keep forgets what is not worth to be taken: what comes before an offset, and runs of fewer bytes than least.
func (e *Earlier) Keep(from, least uint64) {
	e.least = least
	e.runs = slices.DeleteFunc(e.runs, func(has run) bool { return has.to < max(has.from, from)+least })
	if len(e.runs) > 0 {
		e.runs[0].from = max(e.runs[0].from, from)
	}
}

// Next returns the first run that does not end before an offset: its bytes need not come. It is empty, and at the object's end, if there
// is none.
func (e *Earlier) Next(offset uint64) (from, to uint64) {
	i := sort.Search(len(e.runs), func(i int) bool { return e.runs[i].to > offset })
	if i == len(e.runs) {
		return e.layout.end, e.layout.end
	}
	return e.runs[i].from, e.runs[i].to
}

// Take lands what the earlier directory has from the landing's offset on, until the run ends. If that has changed since it was
// compared, it stops there, and what follows has to come. It calls landed after each piece.
func (e *Earlier) Take(ctx context.Context, l *Landing, landed func()) error {
	offset := l.Offset()
	from, to := e.Next(offset)
	if from > offset {
		return nil
	}
	for offset < to {
		index, position, left := e.layout.at(offset)
		upTo := offset + min(left, to-offset)
		if err := e.takeFile(ctx, l, &e.layout.entries[index], position, upTo, landed); err != nil {
			return err
		}
		if offset = l.Offset(); offset < upTo {
			e.forget(offset)
			break
		}
	}
	return nil
}

// takeFile lands the bytes of one file from a position in it on, up to an offset in the object, as far as they are what they should be.
func (e *Earlier) takeFile(ctx context.Context, l *Landing, now *entry, position, upTo uint64, landed func()) error {
	file, size := e.open(now)
	if file == nil {
		return ctx.Err()
	}
	defer func() { _ = file.Close() }() // it was only read
	for now.start+position < upTo {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		number := position >> e.layout.pieces
		content, same := e.piece(file, size, now, number)
		if !same {
			return nil
		}
		begin := number << e.layout.pieces
		content = content[position-begin : min(uint64(len(content)), upTo-now.start-begin)]
		if _, err := l.Write(content); err != nil {
			return err
		}
		position += uint64(len(content))
		landed()
	}
	return nil
}

// forgetsFirst is how much of a run is forgotten as a piece of it is another by now; the next time it is twice as much, and so on: where
// much has changed, or the whole directory is gone, that is not found out piece by piece.
const forgetsFirst = 4 << 20

// forget forgets what comes next in the run that an offset is in.
func (e *Earlier) forget(offset uint64) {
	e.forgets = max(2*e.forgets, forgetsFirst)
	i := sort.Search(len(e.runs), func(i int) bool { return e.runs[i].to > offset })
	if e.runs[i].from = offset + e.forgets; e.runs[i].from+e.least >= e.runs[i].to {
		e.runs = slices.Delete(e.runs, i, i+1)
	}
}

// Close ends it, and leaves what is there as it is.
func (e *Earlier) Close() error { return e.root.Close() }
