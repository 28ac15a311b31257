package paper

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

const (
	// HeaderSize is the length of what is in front of the payload, in bytes.
	HeaderSize = 11
	// PayloadSize is the paper's payload: "UDP packet usually does not exceed 512 bytes and
	// also […] 512 is the usual disk sector size" (§III-B).
	PayloadSize = 512
	// MaxPayload is what a UDP datagram over IPv4 leaves to the payload.
	MaxPayload = math.MaxUint16 - 20 - 8 - HeaderSize
	// MaxSN is the last sequence number. They do not wrap: a transfer ends before.
	MaxSN = math.MaxUint32
)

// Type is the type of a packet: TOP.
type Type uint8

// The five types of packets.
const (
	Data           Type = 1
	ACK            Type = 2
	NACK           Type = 3
	RepairRequest  Type = 4
	RepairResponse Type = 5
)

var typeNames = [...]string{Data: "DATA", ACK: "ACK", NACK: "NACK", RepairRequest: "REPAIR-REQUEST", RepairResponse: "REPAIR-RESPONSE"}

// String is the paper's name of the type.
func (t Type) String() string {
	if t.isKnown() {
		return typeNames[t]
	}
	return fmt.Sprintf("TOP(%d)", uint8(t))
}

func (t Type) isKnown() bool { return t >= Data && t <= RepairResponse }

// carries reports whether packets of the type have a payload.
func (t Type) carries() bool { return t == Data || t == RepairResponse }

// Packet is one packet. PL follows from the payload.
type Packet struct {
	SN      uint32
	Type    Type
	LWSN    uint32
	Payload []byte
}

// Length is the packet's whole length in bytes: PL.
func (p Packet) Length() int { return HeaderSize + len(p.Payload) }

// String is the packet in one line, "for post-processing purposes" (§V).
func (p Packet) String() string {
	return fmt.Sprintf("SOMA %v sn %d lwsn %d pl %d", p.Type, p.SN, p.LWSN, p.Length())
}

// ErrMalformed is of a datagram that is no packet of this layout.
var ErrMalformed = errors.New("not a SOMA packet")

// Append appends the packet's bytes. A payload that is longer than MaxPayload is a
// mistake of the caller's.
func Append(b []byte, p Packet) []byte {
	if len(p.Payload) > MaxPayload {
		panic(fmt.Sprintf("soma/paper: a payload of %d bytes", len(p.Payload)))
	}
	b = binary.BigEndian.AppendUint32(b, p.SN)
	b = append(b, byte(p.Type))
	b = binary.BigEndian.AppendUint16(b, uint16(p.Length()))
	b = binary.BigEndian.AppendUint32(b, p.LWSN)
	return append(b, p.Payload...)
}

// Parse reads the packet that a datagram is. The payload is part of the datagram's memory.
func Parse(datagram []byte) (Packet, error) {
	if len(datagram) < HeaderSize {
		return Packet{}, fmt.Errorf("%w: %d bytes are no header", ErrMalformed, len(datagram))
	}
	p := Packet{
		SN:      binary.BigEndian.Uint32(datagram[0:]),
		Type:    Type(datagram[4]),
		LWSN:    binary.BigEndian.Uint32(datagram[7:]),
		Payload: datagram[HeaderSize:],
	}
	length := int(binary.BigEndian.Uint16(datagram[5:]))
	switch {
	case !p.Type.isKnown():
		return Packet{}, fmt.Errorf("%w: unknown %v", ErrMalformed, p.Type)
	case length != len(datagram):
		return Packet{}, fmt.Errorf("%w: PL is %d in a datagram of %d bytes", ErrMalformed, length, len(datagram))
	case len(p.Payload) > MaxPayload:
		return Packet{}, fmt.Errorf("%w: a payload of %d bytes", ErrMalformed, len(p.Payload))
	case p.SN == 0:
		return Packet{}, fmt.Errorf("%w: SN is 0", ErrMalformed)
	case p.Type == Data && p.LWSN < p.SN:
		return Packet{}, fmt.Errorf("%w: packet %d of a window that ends with %d", ErrMalformed, p.SN, p.LWSN)
	case !p.Type.carries() && len(p.Payload) > 0:
		return Packet{}, fmt.Errorf("%w: %v with a payload of %d bytes", ErrMalformed, p.Type, len(p.Payload))
	}
	return p, nil
}
