package datagram

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Sizes in bytes.
const (
	// MaxDatagram is the size that fits through every IPv6 path, without options: larger ones might
	// always be lost, or be fragmented (RFC 8085, section 3.2).
	MaxDatagram = 1280 - 40 - 8
	// Overhead is the size of a datagram without its payload.
	Overhead = clearSize + headSize + tagSize
	// MaxPayload is the largest payload of a DATA: a PARITY over it has to fit, too.
	MaxPayload = MaxDatagram - Overhead - blockHead

	clearSize = 16
	headSize  = 32
	tagSize   = 16
	blockHead = 10
)

// MaxCount is how many datagrams a window of parity protects at most, and how many shards it has at most.
const MaxCount = 128

// most is more than there are sequences in any stream, or numbers on any link. It is so low that arithmetic with them
// does not wrap around.
const most = 1 << 62

// Kind is the kind of a datagram.
type Kind uint8

// The kinds.
const (
	Data Kind = 1 + iota
	Parity
	Feedback
)

// ErrProtocol says that something is not what a correct neighbour sends.
var ErrProtocol = errors.New("datagram protocol violated")

// Header is everything in a datagram but its payload. Times are in microseconds.
type Header struct {
	Number    uint64
	Departure uint64
	Sequence  uint64
	Sent      uint64
	RoundTrip uint32
	Kind      Kind
	Count     uint8
	Index     uint16
}

func (h Header) appendSealed(to []byte) []byte {
	to = binary.BigEndian.AppendUint64(to, h.Departure)
	to = binary.BigEndian.AppendUint64(to, h.Sequence)
	to = binary.BigEndian.AppendUint64(to, h.Sent)
	to = binary.BigEndian.AppendUint32(to, h.RoundTrip)
	to = append(to, byte(h.Kind), h.Count)
	return binary.BigEndian.AppendUint16(to, h.Index)
}

// parseSealed reads what was sealed, and checks that such a datagram can exist.
func parseSealed(number uint64, from []byte) (Header, []byte, error) {
	if len(from) < headSize {
		return Header{}, nil, fmt.Errorf("%w: %d bytes were sealed", ErrProtocol, len(from))
	}
	h := Header{
		Number: number, Departure: binary.BigEndian.Uint64(from), Sequence: binary.BigEndian.Uint64(from[8:]),
		Sent: binary.BigEndian.Uint64(from[16:]), RoundTrip: binary.BigEndian.Uint32(from[24:]),
		Kind: Kind(from[28]), Count: from[29], Index: binary.BigEndian.Uint16(from[30:]),
	}
	payload := from[headSize:]
	return h, payload, h.check(len(payload))
}

func (h Header) check(payload int) error {
	ok := false
	switch h.Kind {
	case Data:
		ok = payload <= MaxPayload && h.Count == 0 && h.Index == 0
	case Parity:
		ok = payload >= blockHead && payload <= MaxPayload+blockHead && h.Count >= 1 && h.Count <= MaxCount && h.Index < MaxCount
	case Feedback:
		ok = payload == ReportSize && h.Count == 0 && h.Index == 0
	}
	if h.Number >= most || h.Sequence >= most {
		return fmt.Errorf("%w: number %d with sequence %d", ErrProtocol, h.Number, h.Sequence)
	}
	if !ok {
		return fmt.Errorf("%w: kind %d with count %d, index %d and %d bytes", ErrProtocol, h.Kind, h.Count, h.Index, payload)
	}
	return nil
}

// AppendBlock writes the part of a datagram that parity protects, padded to a size.
func AppendBlock(to []byte, sent uint64, payload []byte, size int) []byte {
	begun := len(to)
	to = binary.BigEndian.AppendUint64(to, sent)
	to = binary.BigEndian.AppendUint16(to, uint16(len(payload)))
	to = append(to, payload...)
	for len(to)-begun < size {
		to = append(to, 0)
	}
	return to
}

// BlockSize returns the size of the block of a payload that is the longest of its window.
func BlockSize(payload int) int { return blockHead + payload }

// ParseBlock reads a recovered block. The payload that it returns is part of it.
func ParseBlock(from []byte) (sent uint64, payload []byte, err error) {
	if len(from) < blockHead {
		return 0, nil, fmt.Errorf("%w: block of %d bytes", ErrProtocol, len(from))
	}
	length := int(binary.BigEndian.Uint16(from[8:]))
	if length > len(from)-blockHead {
		return 0, nil, fmt.Errorf("%w: block with %d of %d bytes", ErrProtocol, length, len(from)-blockHead)
	}
	return binary.BigEndian.Uint64(from), from[blockHead : blockHead+length], nil
}
