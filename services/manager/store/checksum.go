package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
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

// checkDatabase reads the structure of etcd's database file, if there is one,
// and changes nothing. etcd itself would notice damage only when it meets it.
func checkDatabase(name string) (err error) {
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	defer func() {
		if cause := recover(); cause != nil { // the reader trusts the file
			err = fmt.Errorf("%w: %s: %v", ErrDamaged, name, cause)
		}
	}()
	database, err := bbolt.Open(name, 0o600, &bbolt.Options{ReadOnly: true, PreLoadFreelist: true, Timeout: time.Second})
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, name, err)
	}
	defer database.Close()
	return database.View(func(tx *bbolt.Tx) error {
		var problems []error
		for problem := range tx.Check() {
			problems = append(problems, problem)
		}
		if len(problems) > 0 {
			return fmt.Errorf("%w: %s: %d problems, the first: %w", ErrDamaged, name, len(problems), problems[0])
		}
		if keys := tx.Bucket([]byte("key")); keys != nil {
			return keys.ForEach(checkEntry)
		}
		return nil
	})
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
