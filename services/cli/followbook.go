package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/groupcast/groupcast/internal/identity"
)

// followBook remembers which files a stream was read from, in a file that outlives the command: the
// gatherer only knows an offset, which says nothing of the file that has the name now.
type followBook struct {
	path   string // empty keeps nothing
	warn   func(line string)
	warned bool
	of     bookOf
	pieces []piece       // in the order of the stream
	at     int           // the piece that is read; -1 before the first
	stored atomic.Uint64 // all before it is on the gatherer's disk
	// rebooted is whether the machine was started anew since the book was written: files may have lost what was read of them.
	rebooted bool
}

// bookOf is what a book is about, and bookFile the content of its file.
type (
	bookOf struct {
		File   string `json:"file"`
		Stream string `json:"stream"`
		// Client and Gatherer are whose stream it is, and at which gatherer, by the name that that has proven. A book of an earlier version,
		// or one that was made before the gatherer was reached, does not say.
		Client   string `json:"client,omitempty"`
		Gatherer string `json:"gatherer,omitempty"`
	}
	bookFile struct {
		bookOf
		// Boot is the value of boot when it was written.
		Boot   string  `json:"boot,omitempty"`
		Pieces []piece `json:"pieces"`
	}
)

// boot returns a text that is different each time the machine is started; empty if it is not known.
var boot = sync.OnceValue(func() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // there may be none
	return strings.TrimSpace(string(text))
})

// openBook reads a book from its file, if that is there.
func openBook(path string, of bookOf, warn func(line string)) (*followBook, error) {
	b := &followBook{path: path, warn: warn, of: of, at: -1}
	text, err := os.ReadFile(path)
	if path == "" || errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	var kept bookFile
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil {
		b.warn(fmt.Sprintf("what is remembered in %s cannot be read, and is made anew: %v", path, err))
		return b, nil
	}
	if !kept.fits(of) {
		return nil, usageError{fmt.Errorf("--state %s is of %v: name another for %v", path, kept.bookOf, of)}
	}
	b.of.Gatherer = kept.Gatherer
	b.pieces = kept.Pieces
	b.rebooted = kept.Boot != "" && boot() != "" && kept.Boot != boot()
	return b, nil
}

// openBook opens the book that remembers which files were read. It has to know one if nothing has the name now, as between a rotation and
// the next line that is written.
func (u *upload) openBook(client, name string, say func(line string)) (*followBook, error) {
	book, err := u.bookFor(client, name, say)
	if err == nil && len(book.pieces) == 0 {
		if _, missing := os.Stat(name); errors.Is(missing, fs.ErrNotExist) {
			err = usageError{missing}
		}
	}
	return book, err
}

func (u *upload) bookFor(client, name string, say func(line string)) (*followBook, error) {
	of := bookOf{File: name, Stream: u.path, Client: client}
	if u.state != "" {
		return openBook(u.state, of, say)
	}
	path, none := bookPath(u.to, of)
	book, err := openBook(path, of, say)
	if none != nil {
		book.cannot(none)
	}
	return book, err
}

// fits reports whether a book may be about something else that is said.
func (b bookOf) fits(of bookOf) bool {
	return b.File == of.File && b.Stream == of.Stream && (b.Client == "" || b.Client == of.Client) && (b.Gatherer == "" || of.Gatherer == "" || b.Gatherer == of.Gatherer)
}

func (b bookOf) String() string {
	text := fmt.Sprintf("%s, uploaded as %s", b.File, b.Stream)
	if b.Client != "" {
		text += " of " + b.Client
	}
	if b.Gatherer != "" {
		text += " to " + b.Gatherer
	}
	return text
}

// is says at which gatherer the stream is. It returns an error if the book is of a stream at another, which has other offsets.
func (b *followBook) is(gatherer string) error {
	at := b.of
	at.Gatherer = gatherer
	if !b.of.fits(at) {
		return usageError{fmt.Errorf("--state %s is of %v: name another for %s, or remove \"gatherer\" from it if that is the same one under another name", b.path, b.of, gatherer)}
	}
	b.of = at
	return nil
}

// bookPath returns where a book is kept by default, under a name that is made of what the book is about.
func bookPath(gatherer string, of bookOf) (string, error) {
	dir := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, ".local", "state")
	}
	sum := sha256.Sum256([]byte(fmt.Sprintf("%q %q %q %q", gatherer, of.Client, of.Stream, of.File)))
	return filepath.Join(dir, "groupcast", "follow", hex.EncodeToString(sum[:16])+".json"), nil
}

// write keeps the book. If it cannot, following goes on all the same.
func (b *followBook) write() {
	if b.path == "" {
		return
	}
	text, err := json.Marshal(bookFile{b.of, boot(), b.pieces})
	if err == nil {
		err = os.MkdirAll(filepath.Dir(b.path), 0o700)
	}
	if err == nil {
		err = identity.WriteFile(b.path, text, 0o600)
	}
	if err != nil {
		b.cannot(err)
	}
}

// cannot says once that the book cannot be kept.
func (b *followBook) cannot(err error) {
	if !b.warned {
		b.warned = true
		b.warn(fmt.Sprintf("which files were read cannot be remembered, so that a restart after a rotation may double or miss what was added: %v; name another file with --state", err))
	}
}

// drop forgets the pieces that ended before an offset, and finds the one that the next byte is in.
func (b *followBook) drop(offset uint64) {
	for i, one := range b.pieces {
		if one.Began <= offset {
			b.at = i
		}
	}
	if b.at > 0 {
		b.pieces, b.at = slices.Clone(b.pieces[b.at:]), 0
	}
}

// forget forgets pieces of which the gatherer has all: nobody goes back to them.
func (b *followBook) forget() {
	upTo, ended := b.stored.Load(), 0
	for ended < b.at && b.pieces[ended+1].Began <= upTo {
		ended++
	}
	b.pieces, b.at = slices.Delete(b.pieces, 0, ended), b.at-ended
}

// current returns the piece that is read, if there is one.
func (b *followBook) current() (piece, bool) {
	if b.at < 0 {
		return piece{}, false
	}
	return b.pieces[b.at], true
}

func (b *followBook) isLast() bool { return b.at == len(b.pieces)-1 }

// cutLater reports whether a piece's file was cut, and has the bytes of a later piece now.
func (b *followBook) cutLater(known piece) bool {
	for _, later := range b.pieces[b.at+1:] {
		if later.same(known) {
			return true
		}
	}
	return false
}

// goOn turns to the next piece, which begins at an offset. That is where it began before, unless bytes before it are
// missing, or were added. All pieces after it move with it.
func (b *followBook) goOn(offset uint64) piece {
	b.at++
	b.shift(offset - b.pieces[b.at].Began)
	return b.pieces[b.at]
}

// shift moves the piece that is read, and all after it, to later offsets.
func (b *followBook) shift(by uint64) {
	for i := b.at; i < len(b.pieces); i++ {
		b.pieces[i].Began += by
	}
}

// unmark forgets the marks beyond a byte of the piece's file, which may have other bytes there now.
func (b *followBook) unmark(from uint64) {
	known := &b.pieces[b.at]
	known.Marks = slices.DeleteFunc(known.Marks, func(one mark) bool { return one.At > from })
}

// add notes that a file is read whose first byte is at an offset.
func (b *followBook) add(one piece, began uint64) {
	one.Began, one.Head, one.HeadBytes, one.Marks = began, "", 0, nil
	b.pieces = append(b.pieces, one)
	b.at = len(b.pieces) - 1
	b.forget()
	b.write()
}

// remember notes how the file that is read begins, up to a position at most.
func (b *followBook) remember(file *os.File, position int64) {
	known := &b.pieces[b.at]
	bytes := int(min(position, headMost))
	if bytes <= known.HeadBytes {
		return
	}
	if head, err := headOf(file, bytes); err == nil {
		known.Head, known.HeadBytes = head, bytes
		b.write()
	}
}
