package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/pause"
)

const (
	// followPause is how often a file that is followed is looked at.
	followPause = 200 * time.Millisecond
	// followLinger is how long nothing must have been added to a file that has lost its name before the
	// next one is read: the writer opens the next one a moment after the renaming.
	followLinger = time.Second
)

// following reads what is added to a file, and goes on with the next file when another
// takes the name, as when logs are rotated.
type following struct {
	ctx    context.Context
	name   string
	book   *followBook
	say    func(line string) // tells the user what is missing
	file   *os.File          // nil until there is one
	offset uint64            // of the next byte, in the stream
	marked time.Time         // when the last mark was made
	still  time.Time         // since when nothing was added to a file that has lost its name; zero while it has it
}

// follow reads a file from an offset of its stream on. The book says in which file that is. If it says
// nothing, the file is taken to be all of the stream, unless it is too short for that.
func follow(ctx context.Context, name string, offset uint64, book *followBook, say func(line string)) (*following, error) {
	f := &following{ctx: ctx, name: name, book: book, say: say, offset: offset}
	book.drop(offset)
	begin := f.resume
	if len(book.pieces) == 0 {
		begin = f.begin
	}
	if err := begin(); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *following) close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// begin begins with the file that has the name.
func (f *following) begin() error {
	file, err := os.Open(f.name)
	if err != nil {
		return err
	}
	now, size, err := identify(file)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	from := f.offset
	if size < from {
		f.say(fmt.Sprintf("%s has %s, and %s of the stream are at the gatherer, from files that are not remembered: it is read from its beginning",
			f.name, bytesize.Short(size), bytesize.Short(from)))
		from = 0
	}
	return f.turn(file, now, from)
}

// resume goes on in the file that has the next byte, or with the one after it if that file is gone.
func (f *following) resume() error {
	known, is := f.book.current()
	if !is {
		f.say(fmt.Sprintf("the gatherer has %s of the stream alone, and of what came after that, all up to %s is not remembered: that is missing",
			bytesize.Short(f.offset), bytesize.Short(f.book.pieces[0].Began)))
		return f.next()
	}
	file, size := f.find(known)
	within, from, is := f.offset-known.Began, uint64(0), false
	if file != nil {
		from, is = known.goesOn(file, size, within, f.book.rebooted)
	}
	switch {
	case is:
		return f.goOn(file, from, within)
	case file != nil && f.book.isLast():
		f.say(file.Name() + " was cut while nobody followed it: what was added before that and is not at the gatherer is missing")
		return f.turn(file, known, 0)
	case file != nil:
		_ = file.Close() // it was only looked at
	}
	f.sayLost(known)
	return f.next()
}

// goOn goes on in a file of which the gatherer has the bytes before within: after these, or after those of them that are unchanged.
func (f *following) goOn(file *os.File, from, within uint64) error {
	if from < within {
		f.say(fmt.Sprintf("%s has lost its end, as by a power cut: %s that are at the gatherer, up to byte %d of the stream, are not in it any more, or may be others. It goes on behind what is as it was",
			file.Name(), bytesize.Short(within-from), f.offset))
	}
	f.book.shift(within - from)
	f.book.unmark(from)
	f.book.write() // what is no longer needed was dropped
	return f.read(file, from)
}

// sayLost says that a file is gone before all of it was at the gatherer.
func (f *following) sayLost(gone piece) {
	f.say(fmt.Sprintf("a file that had the name %s earlier is gone or was cut (inode %d): what was added to it after byte %d of the stream, the last at the gatherer, is missing",
		f.name, gone.Inode, f.offset))
}

// Read waits for more. When ctx is done, that is the end.
func (f *following) Read(p []byte) (int, error) {
	for {
		if err := f.beginAnew(); err != nil {
			return 0, fmt.Errorf("follow: %w", err)
		}
		n, err := f.more(p)
		if n > 0 || err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		moved, err := f.advance()
		if err != nil {
			return 0, fmt.Errorf("follow: %w", err)
		}
		if moved {
			continue
		}
		if !pause.For(f.ctx, followPause) {
			f.markHere() // ended in order: the next call goes on right here, even if the machine has been started again
			return 0, io.EOF
		}
	}
}

// beginAnew goes back to the beginning of the file if it was cut since its end was read, even if it has since
// grown beyond that again.
func (f *following) beginAnew() error {
	known, is := f.book.current()
	if !is || f.file == nil || known.HeadBytes == 0 {
		return nil
	}
	if head, err := headOf(f.file, known.HeadBytes); err != nil || head == known.Head {
		return nil //nolint:nilerr // that a file is shorter now is found at its end
	}
	return f.again(known)
}

// again reads a file from its beginning, as it was cut; unless others that are known came after it: what it lost is told, and they are next.
func (f *following) again(known piece) error {
	if f.book.isLast() {
		return f.turn(f.file, known, 0)
	}
	f.sayLost(known)
	return f.next()
}

// more reads what there is of the file.
func (f *following) more(p []byte) (int, error) {
	if f.file == nil {
		return 0, io.EOF
	}
	n, err := f.file.Read(p)
	if f.offset += uint64(n); n > 0 {
		f.mark()
		if !f.still.IsZero() {
			f.still = time.Now()
		}
	}
	return n, err
}

// advance turns to what comes after the end of the file, which is the same file if it was cut, or the next
// one, and reports whether there is anything.
func (f *following) advance() (moved bool, err error) {
	if f.file == nil {
		return f.moveOn()
	}
	own, err := f.file.Stat()
	if err != nil {
		return false, err
	}
	position, err := f.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return false, err
	}
	if own.Size() < position {
		same, _ := f.book.current()
		return true, f.again(same)
	}
	f.book.remember(f.file, position)
	f.mark()
	if f.book.isLast() && !f.left(own) {
		return false, nil
	}
	return f.moveOn()
}

// left reports whether another file has the name, and nothing more is added to this one.
func (f *following) left(own os.FileInfo) bool {
	now, err := os.Stat(f.name)
	if err != nil || os.SameFile(now, own) {
		f.still = time.Time{} // the file may get its name back
		return false
	}
	if f.still.IsZero() {
		f.still = time.Now()
	}
	return time.Since(f.still) >= followLinger
}

// moveOn turns to the next file, and reports whether there is one.
func (f *following) moveOn() (bool, error) {
	before := f.file
	err := f.next()
	return f.file != before, err
}

// next turns to the next file: one that was read earlier, or else one that had the name meanwhile, or else the
// one that has it now. There may be none for a moment.
func (f *following) next() error {
	for !f.book.isLast() {
		known := f.book.goOn(f.offset)
		if file, _ := f.find(known); file != nil {
			f.book.write()
			return f.read(file, 0)
		}
		f.sayLost(known)
	}
	file, now, err := f.successor()
	if file == nil {
		return err
	}
	return f.turn(file, now, 0)
}

// turn notes that a file is read next, from a byte of it on, and begins to read it.
func (f *following) turn(file *os.File, to piece, from uint64) error {
	f.book.add(to, f.offset-from)
	return f.read(file, from)
}

// read reads a file from a byte of it on, in place of the one before.
func (f *following) read(file *os.File, from uint64) error {
	if f.file != file {
		_ = f.close() // closing a file that was only read cannot lose anything
	}
	f.file, f.still = file, time.Time{}
	_, err := file.Seek(int64(from), io.SeekStart)
	return err
}
