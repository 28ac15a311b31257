package object

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"
)

// Kind is what an object is.
type Kind uint8

// The kinds.
const (
	File Kind = 1 + iota
	Directory
)

func (k Kind) String() string {
	switch k {
	case File:
		return "file"
	case Directory:
		return "directory"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Root is the BLAKE3 hash of all bytes of an object.
type Root [32]byte

func (r Root) String() string { return hex.EncodeToString(r[:]) }

// MaxLength is the greatest length of an object: what counts bytes on disk is signed.
const MaxLength = math.MaxInt64

// What a caller tells apart.
var (
	ErrName    = errors.New("name not allowed")
	ErrTable   = errors.New("directory table not allowed")
	ErrChanged = errors.New("source changed")
	ErrDamaged = errors.New("object damaged") // what landed is not what was sent
	ErrBusy    = errors.New("object is being received already")
)

// Info is what sender and receivers agree on before the first byte.
type Info struct {
	Name   string      // under which the object appears: one path element that CheckName allows
	Kind   Kind        //
	Length uint64      // of all bytes
	Mode   fs.FileMode // permission bits of the file or of the outermost directory
	Time   time.Time   // when the source last changed: tells partials of different contents apart
	Zeros  uint64      // bytes that are in holes of the source, as far as is known: no room is asked for them
	Hashed bool        // of a directory: its head has the hashes of its files
}

// check says why no object can be like this.
func (i Info) check() error {
	if err := CheckName(i.Name); err != nil {
		return err
	}
	switch {
	case i.Kind != File && i.Kind != Directory:
		return fmt.Errorf("object of unknown %v", i.Kind)
	case i.Length > MaxLength:
		return fmt.Errorf("object of %d bytes: the greatest length is %d", i.Length, uint64(MaxLength))
	case i.Kind == Directory && i.Length < headSize:
		return fmt.Errorf("%w: it cannot be in %d bytes", ErrTable, i.Length)
	case i.Mode&^fs.ModePerm != 0:
		return fmt.Errorf("object with mode %v: only permission bits are delivered", i.Mode)
	}
	return nil
}
