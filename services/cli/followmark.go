package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"slices"
	"time"
)

// mark is what a file had before one of its bytes when all before that was read.
type mark struct {
	At uint64 `json:"at"`
	// Hash is the SHA-256 of the bytes before it, markBytes at most.
	Hash string `json:"hash"`
}

// A power cut takes what was written to a file last and not synced, which may have been uploaded by then: some half a minute of it. A
// file has marks of about so long, so that it is known up to where it still is what was uploaded, and its book says in which boot of the
// machine they were made: what was read behind the newest may be other bytes in the next.
const (
	markBytes = 256
	marksMost = 12
	markEvery = 5 * time.Second
)

// markAt returns the mark of a file at a position.
func markAt(file *os.File, at uint64) (mark, error) {
	text := make([]byte, min(at, markBytes))
	if _, err := io.ReadFull(io.NewSectionReader(file, int64(at)-int64(len(text)), int64(len(text))), text); err != nil {
		return mark{}, err
	}
	sum := sha256.Sum256(text)
	return mark{at, hex.EncodeToString(sum[:])}, nil
}

func (m mark) isIn(file *os.File) bool {
	now, err := markAt(file, m.At)
	return err == nil && now == m
}

// goesOn returns from where on a piece's file is to be read, of which so many bytes are at the gatherer: behind these, or behind what
// is still as it was if the file has lost its end since, or may have: the machine was started anew. It is not that file any more if it was
// cut to its beginning.
func (p piece) goesOn(file *os.File, size, within uint64, rebooted bool) (from uint64, is bool) {
	if !p.headIs(file) {
		return 0, false
	}
	isNewest, isOther := true, false
	for _, one := range slices.Backward(p.Marks) {
		switch {
		case !one.isIn(file):
			isOther = isOther || one.At <= size
		case isNewest && size >= within && !rebooted:
			return within, true
		default:
			return min(one.At, within), true
		}
		isNewest = false
	}
	switch {
	case size >= within && len(p.Marks) == 0 && !rebooted:
		return within, true
	case isOther: // of all that is known it has the beginning alone
		return 0, false
	case rebooted:
		return min(uint64(p.HeadBytes), within), true
	}
	return min(size, within), p.HeadBytes == headMost
}

// mark notes now and then what a file has before the next byte that is read of it.
func (f *following) mark() {
	if time.Since(f.marked) >= markEvery {
		f.markHere()
	}
}

// markHere notes what a file has before the next byte that is read of it.
func (f *following) markHere() {
	if f.file == nil {
		return
	}
	known := &f.book.pieces[f.book.at]
	at := f.offset - known.Began
	if len(known.Marks) > 0 && known.Marks[len(known.Marks)-1].At >= at {
		return
	}
	one, err := markAt(f.file, at)
	if err != nil {
		return // it was cut just now, which is seen next
	}
	if len(known.Marks) == marksMost {
		known.Marks = slices.Delete(known.Marks, 0, 1)
	}
	known.Marks, f.marked = append(known.Marks, one), time.Now()
	f.book.write()
}
