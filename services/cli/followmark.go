package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"slices"
	"time"
)

// mark tells what a file had just before a position when all before that had been read.
type mark struct {
	At uint64 `json:"at"`
	// Hash is the SHA-256 of the bytes before it, markBytes at most.
	Hash string `json:"hash"`
}

// A power cut takes from a file what was written last and not synced, some half a minute of it, which may have been uploaded by then. A
// file's marks reach back about that long, so that they tell up to where it is still what was uploaded. The book says in which boot of
// the machine they were made: in the next, the file may have other bytes after the newest mark.
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

// goesOn returns from where on to read a piece's file, of which the gatherer has the bytes before within. That is at within, unless the
// file has lost its end since, or may have, as the machine was started anew: then it is after what is unchanged. If the file was cut to
// its beginning, it is no longer the piece's.
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
	case isOther: // of all that is known of it, only the beginning is the same
		return 0, false
	case rebooted:
		return min(uint64(p.HeadBytes), within), true
	}
	return min(size, within), p.HeadBytes == headMost
}

// mark makes a mark now and then.
func (f *following) mark() {
	if time.Since(f.marked) >= markEvery {
		f.markHere()
	}
}

// markHere makes a mark before the next byte that is read.
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
		return // the file was cut just now, which the next read finds
	}
	if len(known.Marks) == marksMost {
		known.Marks = slices.Delete(known.Marks, 0, 1)
	}
	known.Marks, f.marked = append(known.Marks, one), time.Now()
	f.book.write()
}
