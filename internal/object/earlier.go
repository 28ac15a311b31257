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
	found  *Found
	layout *layout
	which  []int // for each entry of the layout, the earlier entry of the same path; -1 if there is none
	alike  bool  // both have the same entries, but for what is in the files
	reader pieceReader
	runs   []run
}

// run is what an earlier directory has of an object: the bytes between two offsets.
type run struct{ from, to uint64 }

// Earlier opens what has the landing's name, if the landing is of a directory whose head has landed, and has hashes. It returns nil if
// there is nothing to compare, as where it is no directory, or has something in it that no directory that lands can have. A pulse in
// ctx beats with all that is read of it.
func (l *Landing) Earlier(ctx context.Context) (*Earlier, error) {
	now, err := l.usable()
	if err != nil || now.layout.pieces == 0 {
		return nil, err
	}
	dir, err := l.partial.dir.OpenRoot(".")
	if err != nil {
		return nil, fmt.Errorf("open %s again: %w", l.partial.dir.Name(), err)
	}
	source, err := openIn(ctx, dir, l.info.Name, false)
	if err != nil {
		_ = dir.Close()
		return nil, ctx.Err()
	}
	e := &Earlier{
		found:  &Found{dir: dir, source: source, info: l.info},
		layout: now.layout, reader: pieceReader{size: now.layout.pieces, pulse: pulse.Of(ctx)},
	}
	if source.info.Kind != Directory {
		return nil, e.Close()
	}
	e.match()
	return e, nil
}

// match finds for each entry the earlier one of the same path. Both tables are in the same order.
func (e *Earlier) match() {
	before := e.found.source.layout.entries
	e.alike = len(before) == len(e.layout.entries)
	e.which = make([]int, len(e.layout.entries))
	next := 0
	for i := range e.layout.entries {
		now := &e.layout.entries[i]
		for next < len(before) && compare(before[next].path, now.path) < 0 {
			next++
		}
		e.which[i] = -1
		if next < len(before) && before[next].path == now.path && before[next].kind == now.kind {
			e.which[i] = next
		}
		e.alike = e.alike && e.which[i] == i && before[i].size == now.size && before[i].mode == now.mode
	}
}

// Compare reads the earlier directory, as far as it may have something of the one that lands.
func (e *Earlier) Compare(ctx context.Context) error {
	for i := range e.layout.entries {
		if err := e.compareFile(ctx, i); err != nil {
			return fmt.Errorf("compare %s: %w", e.layout.entries[i].path, err)
		}
	}
	return nil
}

// compareFile compares a file with the earlier one. What cannot be read there has to come.
func (e *Earlier) compareFile(ctx context.Context, index int) error {
	now := &e.layout.entries[index]
	if e.which[index] < 0 || now.size == 0 {
		return nil
	}
	file, err := e.openBefore(index)
	if err != nil {
		return ctx.Err()
	}
	defer func() { _ = file.Close() }() // it was only read
	for i := range e.layout.pieces.count(now.size) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, same := e.piece(file, index, i); same {
			begin := now.start + i<<e.layout.pieces
			e.add(run{begin, min(begin+1<<e.layout.pieces, now.end())})
		}
	}
	return nil
}

func (e *Earlier) openBefore(index int) (*os.File, error) {
	return e.found.source.openEntry(e.found.source.layout, e.which[index])
}

// piece reads a piece of a file, and reports whether it is what lands.
func (e *Earlier) piece(file *os.File, index int, number uint64) (content []byte, same bool) {
	before, now := &e.found.source.layout.entries[e.which[index]], &e.layout.entries[index]
	if end := min((number+1)<<e.layout.pieces, now.size); before.size < end {
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
	e.runs = slices.DeleteFunc(e.runs, func(has run) bool { return has.to < max(has.from, from)+least })
	if len(e.runs) > 0 {
		e.runs[0].from = max(e.runs[0].from, from)
	}
}

// Has returns how many bytes there are in the runs that were kept.
func (e *Earlier) Has() (bytes uint64) {
	for _, has := range e.runs {
		bytes += has.to - has.from
	}
	return bytes
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
// compared, it stops there, and the rest of the run has to come. It calls landed after each piece.
func (e *Earlier) Take(ctx context.Context, l *Landing, landed func()) error {
	offset := l.Offset()
	from, to := e.Next(offset)
	if from > offset {
		return nil
	}
	for offset < to {
		index, position, left := e.layout.at(offset)
		upTo := offset + min(left, to-offset)
		if err := e.takeFile(ctx, l, index, position, upTo, landed); err != nil {
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
func (e *Earlier) takeFile(ctx context.Context, l *Landing, index int, position, upTo uint64, landed func()) error {
	file, err := e.openBefore(index)
	if err != nil {
		return ctx.Err()
	}
	defer func() { _ = file.Close() }() // it was only read
	start := e.layout.entries[index].start
	for start+position < upTo {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		number := position >> e.layout.pieces
		content, same := e.piece(file, index, number)
		if !same {
			return nil
		}
		begin := number << e.layout.pieces
		content = content[position-begin : min(uint64(len(content)), upTo-start-begin)]
		if _, err := l.Write(content); err != nil {
			return err
		}
		position += uint64(len(content))
		landed()
	}
	return nil
}

// forget forgets the rest of the run that an offset is in.
func (e *Earlier) forget(offset uint64) {
	e.runs = slices.DeleteFunc(e.runs, func(has run) bool { return has.from <= offset && offset < has.to })
}

// Same returns the earlier directory as that which was sent, if it has everything of that, and nothing else. Only its root tells
// whether it is that.
func (e *Earlier) Same(l *Landing) (*Found, error) {
	if e.Has() != e.layout.end-e.layout.head || !e.alike {
		return nil, nil
	}
	content, err := l.readHead(e.layout.head)
	if err != nil {
		return nil, l.fail(err)
	}
	head, err := inMemory(content)
	if err != nil {
		return nil, err
	}
	source := e.found.source
	_ = source.head.Close() // it is in memory
	source.head, source.layout, source.info.Length = head, e.layout, e.layout.end
	return e.found, nil
}

// Close ends it, and leaves what is there as it is.
func (e *Earlier) Close() error { return e.found.Close() }
