package object

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lukechampine.com/blake3"
)

// Entry is one of a table that a test makes up.
type Entry struct {
	Path string
	Kind Kind
	Mode fs.FileMode
	Size uint64
}

// AppendHead writes a head, be it allowed or not.
func AppendHead(to []byte, entries ...Entry) []byte {
	made := make([]entry, len(entries))
	for i, e := range entries {
		made[i] = entry{path: e.Path, kind: e.Kind, mode: e.Mode, size: e.Size}
	}
	return appendHead(to, made, 0)
}

// ParseHead reads a head.
func ParseHead(from []byte, length uint64) ([]Entry, error) {
	known, err := parseHead(from, length)
	if err != nil {
		return nil, err
	}
	parsed := make([]Entry, len(known.entries))
	for i, e := range known.entries {
		parsed[i] = Entry{e.path, e.kind, e.mode, e.size}
	}
	return parsed, nil
}

// HeadAgain writes a head that was read.
func HeadAgain(from []byte, length uint64) []byte {
	known, err := parseHead(from, length)
	if err != nil {
		return nil
	}
	return appendHead(nil, known.entries, known.pieces)
}

// PiecesFor returns how large pieces of files of these sizes are, with paths as long as this one, and how many bytes of hashes they have.
func PiecesFor(sizes []uint64, path string) (piece, hashes uint64) {
	entries := make([]entry, len(sizes))
	for i, size := range sizes {
		entries[i] = entry{size: size, path: path}
	}
	pieces := piecesFor(entries)
	return 1 << pieces, hashesOf(entries, pieces)
}

// Layout returns where the parser would put the bytes of each file.
func Layout(from []byte, length uint64) (starts []uint64) {
	known, err := parseHead(from, length)
	if err != nil {
		return nil
	}
	for _, e := range known.entries {
		starts = append(starts, e.start)
	}
	return starts
}

// ClaimsIn reads what a journal with this content claims.
func ClaimsIn(t testing.TB, content []byte, length uint64) (upTo []uint64) {
	file, err := os.CreateTemp(t.TempDir(), "journal")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(content); err != nil {
		t.Fatal(err)
	}
	claims, err := (&journal{file: file}).claims(length)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range claims {
		upTo = append(upTo, c.offset)
	}
	return upTo
}

// AppendClaims writes a journal of claims.
func AppendClaims(upTo ...uint64) []byte {
	content := newJournal()
	for _, offset := range upTo {
		content = claim{offset: offset, root: Root(blake3.Sum256(nil))}.append(content)
	}
	return content
}

// ClaimOften makes landings claim after so little, until the test ends.
func ClaimOften(t testing.TB, bytes uint64, every time.Duration) {
	oldBytes, oldEvery := claimBytes, claimEvery
	claimBytes, claimEvery = bytes, every
	t.Cleanup(func() { claimBytes, claimEvery = oldBytes, oldEvery })
}

// LookAtOnce has landings look at once whether the disk goes on, until the test ends.
func LookAtOnce(t testing.TB) {
	old := haltPatience
	haltPatience = 0
	t.Cleanup(func() { haltPatience = old })
}

// SetClaims is ClaimOften for a process of its own.
func SetClaims(bytes uint64, every time.Duration) { claimBytes, claimEvery = bytes, every }

// PartialOf returns the directory of an object's partial.
func PartialOf(dir string, info Info) string { return filepath.Join(dir, reserved, tag(info)) }

// LastClaim returns what the journal of a partial claims, and how long its head is.
func LastClaim(dir string, info Info) (offset, head uint64) {
	home := PartialOf(dir, info)
	file, err := os.Open(filepath.Join(home, journalName))
	if err != nil {
		return 0, 0
	}
	defer file.Close()
	claims, err := (&journal{file: file}).claims(info.Length)
	if err != nil || len(claims) == 0 {
		return 0, 0
	}
	if info.Kind == Directory {
		if content, err := os.ReadFile(filepath.Join(home, headName)); err == nil && len(content) >= headSize {
			opening, _ := parseOpening(content)
			head = opening.head()
		}
	}
	return claims[len(claims)-1].offset, head
}

// CheckRoom is checkRoom of a directory's file system.
func CheckRoom(dir *os.File, bytes, files uint64) error { return checkRoom(dir, bytes, files) }

// Sum is the root of these bytes.
func Sum(content []byte) Root { return blake3.Sum256(content) }

// Flush has a landing flush what it has not claimed, beside a claim that ends when ended is closed.
func (l *Landing) Flush(ended <-chan struct{}) error { return l.flush(ended) }
