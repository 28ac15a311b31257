package fast

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Sizes in bytes.
const (
	headSize = 16
	tagSize  = 16
	// Overhead is what a datagram has beside its payload.
	Overhead = headSize + tagSize
	// MinDatagram is a size that passes everywhere: what IPv6 demands of every path, less
	// the headers of IP and UDP.
	MinDatagram = 1280 - 40 - 8
	// MaxDatagram is what fits into the frames of a LAN with jumbo frames.
	MaxDatagram = 9000 - 20 - 8
	// SaltSize and PublicSize are those of the salt of a session and of a public key.
	SaltSize   = 16
	PublicSize = 32
	// RootSize is that of a BLAKE3 hash.
	RootSize = 32
)

// PacketsPerBlock is how many packets a block has, but for the last.
const PacketsPerBlock = 64

// MaxShards is how many shards of data and parity a block can have together.
const MaxShards = 256

// MaxNumber is the greatest number of a datagram.
const MaxNumber = 1<<48 - 1

// Kind is what a datagram is.
type Kind uint8

// The kinds.
const (
	Announce Kind = 1 + iota
	Join
	Welcome
	Data
	Parity
	Zero
	Poll
	Report
	Seal
	Bye
	Fence
	Yield
)

func (k Kind) String() string {
	names := [...]string{"ANNOUNCE", "JOIN", "WELCOME", "DATA", "PARITY", "ZERO", "POLL", "REPORT", "SEAL", "BYE", "FENCE", "YIELD"}
	if k < Announce || int(k) > len(names) {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return names[k-1]
}

// ErrProtocol says that something is not as any correct peer sends it.
var ErrProtocol = errors.New("replication protocol violated")

// Head is what every datagram begins with.
type Head struct {
	Kind    Kind
	Index   uint8
	Session uint32
	Block   uint32
	Number  uint64
}

// put writes the head to the first bytes of a datagram.
func (h Head) put(to []byte) {
	to[0], to[1] = byte(h.Kind), h.Index
	binary.BigEndian.PutUint32(to[2:], h.Session)
	binary.BigEndian.PutUint32(to[6:], h.Block)
	binary.BigEndian.PutUint16(to[10:], uint16(h.Number>>32))
	binary.BigEndian.PutUint32(to[12:], uint32(h.Number))
}

// ParseHead reads the head of what came. Nothing of it can be believed before the datagram
// has been opened.
func ParseHead(datagram []byte) (Head, error) {
	if len(datagram) < Overhead || len(datagram) > MaxDatagram {
		return Head{}, fmt.Errorf("%w: datagram of %d bytes", ErrProtocol, len(datagram))
	}
	h := Head{
		Kind: Kind(datagram[0]), Index: datagram[1],
		Session: binary.BigEndian.Uint32(datagram[2:]), Block: binary.BigEndian.Uint32(datagram[6:]),
		Number: uint64(binary.BigEndian.Uint16(datagram[10:]))<<32 | uint64(binary.BigEndian.Uint32(datagram[12:])),
	}
	if h.Kind < Announce || h.Kind > Yield {
		return Head{}, fmt.Errorf("%w: %v", ErrProtocol, h.Kind)
	}
	return h, nil
}
