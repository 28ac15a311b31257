package object

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"lukechampine.com/blake3"

	"github.com/groupcast/groupcast/internal/filelock"
	"github.com/groupcast/groupcast/internal/noroom"
)

const (
	journalMagic   = "GCPJ"
	journalVersion = 1
	journalHead    = 8
	claimSize      = 48
	claimChecked   = 40 // bytes of a claim that its check is over
)

// claim says that all bytes before an offset are on disk, and what their root is.
type claim struct {
	offset uint64
	root   Root
}

func (c claim) append(to []byte) []byte {
	begin := len(to)
	to = binary.BigEndian.AppendUint64(to, c.offset)
	to = append(to, c.root[:]...)
	check := blake3.Sum256(to[begin:])
	return append(to, check[:claimSize-claimChecked]...)
}

// parseClaim reads a claim; it is not whole if a crash tore it.
func parseClaim(from []byte) (c claim, whole bool) {
	c = claim{binary.BigEndian.Uint64(from), Root(from[8:claimChecked])}
	return c, string(c.append(nil)) == string(from[:claimSize])
}

// journal is where claims are written. It is locked as long as it is open.
type journal struct {
	file *os.File
	size int64 // where the next claim goes
}

// claims reads what earlier landings have claimed about an object of this
// length. It ends before the first claim that cannot be right.
func (j *journal) claims(length uint64) ([]claim, error) {
	content, err := io.ReadAll(io.NewSectionReader(j.file, 0, 1<<30))
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	if len(content) < journalHead || string(content[:journalHead]) != string(newJournal()) {
		return nil, nil
	}
	var claims []claim
	for rest := content[journalHead:]; len(rest) >= claimSize; rest = rest[claimSize:] {
		c, whole := parseClaim(rest)
		if !whole || c.offset > length || len(claims) > 0 && c.offset <= claims[len(claims)-1].offset {
			break
		}
		claims = append(claims, c)
	}
	return claims, nil
}

func newJournal() []byte { return append([]byte(journalMagic), journalVersion, 0, 0, 0) }

// keep forgets all but the first claims.
func (j *journal) keep(claims int) error {
	if claims == 0 {
		if err := j.file.Truncate(0); err != nil {
			return fmt.Errorf("empty journal: %w", err)
		}
		return j.write(newJournal(), 0)
	}
	j.size = int64(journalHead + claims*claimSize)
	if err := j.file.Truncate(j.size); err != nil {
		return fmt.Errorf("shorten journal: %w", err)
	}
	return nil
}

// claim writes what has been synced, and returns once that is on disk as well.
func (j *journal) claim(c claim) error {
	if err := j.write(c.append(nil), j.size); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("sync journal: %w", err)
	}
	return nil
}

func (j *journal) write(content []byte, at int64) error {
	if _, err := j.file.WriteAt(content, at); err != nil {
		return fmt.Errorf("write journal: %w", noroom.Named(err))
	}
	j.size = at + int64(len(content))
	return nil
}

func (j *journal) close() error {
	if err := filelock.Release(j.file); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("close journal: %w", err)
	}
	return nil
}
