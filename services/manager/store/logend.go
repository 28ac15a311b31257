package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"google.golang.org/protobuf/proto"
)

// applied is how far etcd's database is.
type applied struct {
	index uint64 // of the last entry of the log that is in it; 0 is none
	alone string // the only member there is; empty if there are several, or none yet
}

// appliedOf reads how far a database is.
func appliedOf(tx *bbolt.Tx) (of applied, err error) {
	if meta := tx.Bucket([]byte("meta")); meta != nil {
		if index := meta.Get([]byte("consistent_index")); len(index) == 8 {
			of.index = binary.BigEndian.Uint64(index)
		} else if index != nil {
			return applied{}, fmt.Errorf("%w: %x is no place in a log", ErrDamaged, index)
		}
	}
	if members := tx.Bucket([]byte("members")); members != nil {
		if id, _ := members.Cursor().First(); members.Stats().KeyN == 1 {
			of.alone = string(id)
		}
	}
	return of, nil
}

// checkLog reads the log of a member, and changes nothing. A member that is alone writes to its database only what is safe in its log. If the
// log ends earlier, it has lost its end, and with it what may be in neither. etcd would go on all the same, once what it adds to the log at each
// start has the places of what is lost. One of several may be ahead of its log after a crash: it gets from the others what it lacks.
func checkLog(dir string, database applied) error {
	if database.index == 0 || database.alone == "" {
		return nil
	}
	last, member, err := readLog(dir)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, dir, err)
	}
	if last < database.index && (member == "" || member == database.alone) {
		return fmt.Errorf("%w: %s: the log has lost its end: it has %d entries, and %d are in the database", ErrDamaged, dir, last, database.index)
	}
	return nil
}

// readLog returns the index of the last entry in a log, and whose log it is. A log that is not there has neither.
func readLog(dir string) (last uint64, member string, err error) {
	segments, err := openSegments(dir)
	defer func() {
		for _, segment := range segments {
			segment.Close()
		}
	}()
	if err != nil {
		return 0, "", err
	}
	var readers []fileutil.FileReader
	for _, segment := range segments {
		readers = append(readers, fileutil.NewFileReader(segment))
	}
	decoder := wal.NewDecoder(readers...)
	var record walpb.Record
	for err = decoder.Decode(&record); err == nil; err = decoder.Decode(&record) {
		switch record.GetType() {
		case wal.MetadataType:
			var metadata etcdserverpb.Metadata
			if err := proto.Unmarshal(record.Data, &metadata); err != nil {
				return 0, "", err
			}
			member = strconv.FormatUint(metadata.GetNodeID(), 16)
		case wal.EntryType: // it takes the place of one with its index, and of all after that
			last = wal.MustUnmarshalEntry(record.Data).GetIndex()
		case wal.SnapshotType:
			var snapshot walpb.Snapshot
			if err := proto.Unmarshal(record.Data, &snapshot); err != nil {
				return 0, "", err
			}
			last = max(last, snapshot.GetIndex())
		case wal.CrcType:
			if crc := decoder.LastCRC(); crc != 0 && record.Validate(crc) != nil {
				return 0, "", wal.ErrCRCMismatch
			}
			decoder.UpdateCRC(record.GetCrc())
		}
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) { // the latter is an entry that was being written, as at a power cut
		return 0, "", err
	}
	return last, member, nil
}

// openSegments opens the files of a log in their order.
func openSegments(dir string) (segments []*os.File, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".wal") {
			continue
		}
		segment, err := os.Open(filepath.Join(dir, entry.Name()))
		if err != nil {
			return segments, err
		}
		segments = append(segments, segment)
	}
	return segments, nil
}
