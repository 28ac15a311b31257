package device

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"lukechampine.com/blake3"

	"github.com/groupcast/groupcast/internal/object"
)

// claims is the file that says how much of an object is on a device: all of it, once it was read back.
//
//	0        4       5           8                       16              48              56
//	+--------+-------+-----------+-----------------------+---------------+---------------+
//	| "GCDV" |version| zero      | bytes on the device   | their root    | check         |
//	+--------+-------+-----------+-----------------------+---------------+---------------+
type claims struct{ path string }

type claim struct {
	offset uint64
	root   object.Root
}

const (
	claimMagic = "GCDV\x01\x00\x00\x00"
	claimSize  = 56
)

// claimsIn is where it is kept for a device and an object. Without a directory it is not.
func claimsIn(state, number string, info object.Info) claims {
	if state == "" {
		return claims{}
	}
	what := blake3.Sum256(fmt.Appendf(nil, "%s %d %d %s", number, info.Length, info.Time.UnixNano(), info.Name))
	return claims{filepath.Join(state, prefix(number)+hex.EncodeToString(what[:8]))}
}

func prefix(number string) string { return "device-" + strings.ReplaceAll(number, ":", "-") + "-" }

// forgetOthers removes what was claimed of other objects on the device, which is being overwritten.
func (c claims) forgetOthers(number string) error {
	if c.path == "" {
		return nil
	}
	others, err := filepath.Glob(filepath.Join(filepath.Dir(c.path), prefix(number)+"*"))
	for _, other := range others {
		if other != c.path {
			err = errors.Join(err, os.Remove(other))
		}
	}
	return err
}

// read returns what was claimed last, if that is whole.
func (c claims) read() (claim, bool) {
	if c.path == "" {
		return claim{}, false
	}
	content, err := os.ReadFile(c.path)
	if err != nil || len(content) != claimSize {
		return claim{}, false
	}
	one := claim{binary.BigEndian.Uint64(content[8:]), object.Root(content[16:48])}
	return one, string(one.append(nil)) == string(content)
}

func (c claim) append(to []byte) []byte {
	to = append(to, claimMagic...)
	to = binary.BigEndian.AppendUint64(to, c.offset)
	to = append(to, c.root[:]...)
	check := blake3.Sum256(to)
	return append(to, check[:8]...)
}

// write puts a claim in place of the last, whole or not at all.
func (c claims) write(one claim) error {
	if c.path == "" {
		return nil
	}
	if err := c.put(one.append(nil)); err != nil {
		return fmt.Errorf("note how much is on the device: %w", err)
	}
	return nil
}

func (c claims) put(content []byte) (err error) {
	defer func() {
		if err != nil {
			_ = os.Remove(c.path + ".new")
		}
	}()
	next, err := os.OpenFile(c.path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = next.Write(content)
	if err == nil {
		err = next.Sync()
	}
	if err = errors.Join(err, next.Close()); err != nil {
		return err
	}
	if err := os.Rename(c.path+".new", c.path); err != nil {
		return err
	}
	return c.sync()
}

func (c claims) sync() error {
	dir, err := os.Open(filepath.Dir(c.path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// mark claims nothing: the device is being overwritten. Where the disk is full, what was claimed is removed, which takes no room.
func (c claims) mark() error {
	err := c.write(claim{})
	if err != nil {
		_ = os.Remove(c.path) // if that is not possible either: whatever is claimed is compared by its root
	}
	return err
}
