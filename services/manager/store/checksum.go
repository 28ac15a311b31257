package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
)

// ErrDamaged says that stored bytes are not what was written.
var ErrDamaged = errors.New("the store is damaged")

// etcd checks its log but not its database, so every value carries a checksum of
// itself and its key.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func seal(key string, value []byte) string {
	return string(binary.BigEndian.AppendUint32(value[:len(value):len(value)], checksum(key, value)))
}

func checksum(key string, value []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(key), castagnoli), castagnoli, value)
}

// unseal returns the item that was stored, or ErrDamaged.
func unseal(kv *mvccpb.KeyValue) (Item, error) {
	key := string(kv.Key[len(prefix):])
	end := len(kv.Value) - crc32.Size
	if end < 0 || binary.BigEndian.Uint32(kv.Value[end:]) != checksum(key, kv.Value[:end]) {
		return Item{}, fmt.Errorf("%w: the checksum of %s does not match", ErrDamaged, key)
	}
	return Item{Key: key, Value: kv.Value[:end:end], Changed: Revision(kv.ModRevision)}, nil
}

// checkFiles reads what etcd is about to open in a data directory, if there is anything, and changes nothing. etcd itself would notice damage
// only when it meets it.
func checkFiles(dir string) error {
	database, err := checkDatabase(filepath.Join(dir, "member", "snap", "db"))
	if err != nil {
		return err
	}
	return checkLog(filepath.Join(dir, "member", "wal"), database)
}

// checkDatabase reads the structure and the values of etcd's database file, and returns how far it is.
func checkDatabase(name string) (of applied, err error) {
	size, err := readThrough(name)
	if errors.Is(err, fs.ErrNotExist) {
		return applied{}, nil
	}
	if err != nil {
		return applied{}, fmt.Errorf("%w: %s: %w", ErrDamaged, name, err)
	}
	defer func() {
		if cause := recover(); cause != nil { // the reader trusts the file
			of, err = applied{}, fmt.Errorf("%w: %s: %v", ErrDamaged, name, cause)
		}
	}()
	database, err := bbolt.Open(name, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return applied{}, fmt.Errorf("%w: %s: %w", ErrDamaged, name, err)
	}
	defer database.Close()
	err = database.View(func(tx *bbolt.Tx) error {
		if size < tx.Size() {
			return fmt.Errorf("%w: %s has %d bytes of %d", ErrDamaged, name, size, tx.Size())
		}
		if err := tx.ForEach(checkBucket); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		var problems []error
		for problem := range tx.Check() {
			problems = append(problems, problem)
		}
		if len(problems) > 0 {
			return fmt.Errorf("%w: %s: %d problems, the first: %w", ErrDamaged, name, len(problems), problems[0])
		}
		of, err = appliedOf(tx)
		return err
	})
	return of, err
}

// readThrough reads a file to its end, and returns its size. The database is mapped into memory, where to read what the disk cannot give, or
// what is behind the file's end, ends the process.
func readThrough(name string) (size int64, err error) {
	file, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	return io.Copy(io.Discard, file)
}

// checkBucket visits every page of a bucket. The reader's own check, which comes after this, panics in goroutines of its own.
func checkBucket(name []byte, bucket *bbolt.Bucket) error {
	check := func(_, _ []byte) error { return nil }
	if string(name) == "key" {
		check = checkEntry
	}
	return bucket.ForEach(check)
}

// etcd's database maps revisions to what was written: the main revision and the
// place within it, 8 bytes each, parted by '_', and a mark on deletions.
const (
	revisionSize        = 8 + 1 + 8
	deletedRevisionSize = revisionSize + 1
)

// checkEntry checks one entry of etcd's database.
func checkEntry(revision, value []byte) error {
	sound := (len(revision) == revisionSize || len(revision) == deletedRevisionSize) &&
		revision[8] == '_' && revision[0] < 0x80 && revision[9] < 0x80
	if !sound {
		return fmt.Errorf("%w: %x is no revision", ErrDamaged, revision)
	}
	var kv mvccpb.KeyValue
	if err := proto.Unmarshal(value, &kv); err != nil {
		return fmt.Errorf("%w: revision %x: %w", ErrDamaged, revision, err)
	}
	key, isOurs := strings.CutPrefix(string(kv.Key), prefix)
	if !isOurs || len(revision) == deletedRevisionSize || strings.HasPrefix(key, electionKey) {
		return nil
	}
	_, err := unseal(&kv)
	return err
}
