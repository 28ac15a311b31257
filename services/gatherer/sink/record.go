package sink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/groupcast/groupcast/internal/object"
)

// committedName is the file that says how much of a stream is on disk.
//
//	0      offset (8), its CRC-32C (4)
//	4096   the same
//
// The two are written in turns, and the higher one counts: whatever a power cut leaves of the one that is being written, the
// other is intact. A record of zeros was never written. A first one, of offset 0, is on disk before there is any segment: where
// segments are and no record, it is lost. Earlier versions wrote none before the first commit.
//
// It stays binary, since an earlier version has to go on with it after a rollback. docs/gathering.md has what prints it.
const (
	committedName = "committed"
	slotSize      = 4096
	recordSize    = 12
)

// readRecord returns how much is committed, and which slot says so, if a record was ever written.
func readRecord(file io.ReaderAt) (committed uint64, slot int, written bool, err error) {
	torn := 0
	for i := range 2 {
		var record [recordSize]byte
		n, err := file.ReadAt(record[:], int64(i)*slotSize)
		offset := binary.BigEndian.Uint64(record[:])
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return 0, 0, false, fmt.Errorf("read what is committed: %w", err)
		case record == [recordSize]byte{}:
		case n < recordSize || binary.BigEndian.Uint32(record[8:]) != check(record[:8]):
			torn++
		case offset >= committed:
			committed, slot, written = offset, i, true
		}
	}
	if torn == 2 {
		return 0, 0, false, fmt.Errorf("%w: neither record in the file %s is what was written: restore the file", object.ErrDamaged, committedName)
	}
	return committed, slot, written, nil
}

func check(bytes []byte) uint32 { return crc32.Checksum(bytes, crc32.MakeTable(crc32.Castagnoli)) }

// writeRecord writes a slot, and returns when it is on disk.
func writeRecord(file *os.File, slot int, committed uint64) error {
	if _, err := file.WriteAt(recordOf(committed), int64(slot)*slotSize); err != nil {
		return err
	}
	return file.Sync()
}

func recordOf(committed uint64) []byte {
	record := binary.BigEndian.AppendUint64(nil, committed)
	return binary.BigEndian.AppendUint32(record, check(record))
}
