package relay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// Type is the type of a frame.
type Type uint8

// The types.
const (
	Data Type = 1 + iota
	End
	Ack
	Credit
	Status
	Bye
	Stripes
)

var typeNames = map[Type]string{Data: "DATA", End: "END", Ack: "ACK", Credit: "CREDIT", Status: "STATUS", Bye: "BYE", Stripes: "STRIPES"}

func (t Type) String() string {
	if name, known := typeNames[t]; known {
		return name
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// Level is what an acknowledgement means.
type Level uint8

// The levels, each implying those before it.
const (
	Relayed Level = 1 + iota
	Received
	Durable
)

// Sizes in bytes.
const (
	HeaderSize  = 24
	RootSize    = 32
	MaxData     = 16 << 20
	MaxByeText  = 256
	reasonSize  = 2
	maxByeFrame = reasonSize + MaxByeText
)

// MaxOffset is the largest offset: sizes of files on disk are signed.
const MaxOffset = math.MaxInt64

// ErrProtocol says that the peer sent something that no correct peer sends. The link ends.
var ErrProtocol = errors.New("relay protocol violated")

// Header is what every frame begins with.
type Header struct {
	Type        Type
	Level       Level // of an Ack; zero otherwise
	Length      uint32
	Offset      uint64
	TreeVersion uint64
}

// Append writes the header.
func (h Header) Append(to []byte) []byte {
	to = append(to, byte(h.Type), byte(h.Level), 0, 0)
	to = binary.BigEndian.AppendUint32(to, h.Length)
	to = binary.BigEndian.AppendUint64(to, h.Offset)
	return binary.BigEndian.AppendUint64(to, h.TreeVersion)
}

// ParseHeader reads a header and checks that such a frame can exist. from must hold HeaderSize bytes.
func ParseHeader(from []byte) (Header, error) {
	_ = from[HeaderSize-1]
	h := Header{
		Type: Type(from[0]), Level: Level(from[1]),
		Length:      binary.BigEndian.Uint32(from[4:]),
		Offset:      binary.BigEndian.Uint64(from[8:]),
		TreeVersion: binary.BigEndian.Uint64(from[16:]),
	}
	if from[2] != 0 || from[3] != 0 {
		return Header{}, fmt.Errorf("%w: bytes that must be zero are not", ErrProtocol)
	}
	return h, h.check()
}

// check returns why no correct peer sends such a frame.
func (h Header) check() error {
	least, most, known := h.Type.lengths()
	switch {
	case !known:
		return fmt.Errorf("%w: unknown %v", ErrProtocol, h.Type)
	case h.Length < least || h.Length > most:
		return fmt.Errorf("%w: %v of %d bytes: want %d to %d", ErrProtocol, h.Type, h.Length, least, most)
	case h.Offset > MaxOffset-uint64(h.Length):
		return fmt.Errorf("%w: %v at offset %d", ErrProtocol, h.Type, h.Offset)
	case h.Type == Stripes && (h.Offset < 1 || h.Offset > MaxStripes):
		return fmt.Errorf("%w: %d stripes", ErrProtocol, h.Offset)
	case h.Type == Ack && (h.Level < Relayed || h.Level > Durable), h.Type != Ack && h.Level != 0:
		return fmt.Errorf("%w: %v with level %d", ErrProtocol, h.Type, h.Level)
	}
	return nil
}

// lengths returns the bounds of the length of a frame's payload, and whether its type is known.
func (t Type) lengths() (least, most uint32, known bool) {
	switch t {
	case Data:
		return 1, MaxData, true
	case End:
		return RootSize, RootSize, true
	case Ack, Credit, Status, Stripes:
		return 0, 0, true
	case Bye:
		return reasonSize, maxByeFrame, true
	}
	return 0, 0, false
}

// Reason is why a link ended.
type Reason uint16

// The reasons. The same words are log fields, metric labels and API values.
const (
	Done         Reason = iota // all was delivered
	Moved                      // the child has another parent now, or asks this one from another offset
	Stale                      // the tree version is not the current one
	Denied                     // the capability does not allow it
	Unknown                    // no such delivery here
	Protocol                   // the peer violated the protocol
	Slow                       // the child lags too far behind
	Stopping                   // this process stops
	SenderLost                 // the sender is gone
	Canceled                   // the delivery was canceled
	NoRoom                     // the cache or the disk is full
	NotKept                    // nobody has the requested bytes of a stream any more; the offset is the first that can be had
	reasonsKnown = iota
)

var reasonNames = [reasonsKnown]string{
	"done", "moved", "stale", "denied", "unknown", "protocol", "slow", "stopping", "sender_lost", "canceled", "no_room", "not_kept",
}

func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason_%d", uint16(r)) // from a newer peer
}

// AppendBye writes a whole BYE frame. If the text is too long it is cut.
func AppendBye(to []byte, reason Reason, text string, offset, treeVersion uint64) []byte {
	text = cut(text, MaxByeText)
	to = Header{Type: Bye, Length: uint32(reasonSize + len(text)), Offset: offset, TreeVersion: treeVersion}.Append(to)
	to = binary.BigEndian.AppendUint16(to, uint16(reason))
	return append(to, text...)
}

// cut shortens text to at most size bytes, between characters.
func cut(text string, size int) string {
	for len(text) > size || !utf8.ValidString(text) {
		if len(text) == 0 {
			break
		}
		text = text[:min(size, len(text)-1)]
	}
	return text
}

// ParseBye reads a BYE frame's payload.
func ParseBye(payload []byte) (reason Reason, text string, err error) {
	if len(payload) < reasonSize || len(payload) > maxByeFrame || !utf8.Valid(payload[reasonSize:]) {
		return 0, "", fmt.Errorf("%w: BYE of %d bytes", ErrProtocol, len(payload))
	}
	return Reason(binary.BigEndian.Uint16(payload)), string(payload[reasonSize:]), nil
}
