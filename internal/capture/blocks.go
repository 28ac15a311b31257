package capture

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// The blocks of pcapng that are read; others are skipped.
const (
	blockSection   = 0x0a0d0d0a
	blockInterface = 1
	blockSimple    = 3
	blockPacket    = 6
)

// origin is an interface of a section.
type origin struct {
	link LinkType
	tick float64 // seconds
}

// nextBlocks reads blocks of pcapng up to one with a packet.
func (r *Reader) nextBlocks() (Packet, error) {
	for {
		kind, body, err := r.block()
		if err != nil {
			return Packet{}, err
		}
		switch kind {
		case blockInterface:
			if len(body) < 8 {
				return Packet{}, fmt.Errorf("%w: a short interface", ErrFormat)
			}
			r.interfaces = append(r.interfaces, origin{LinkType(r.order.Uint16(body)), r.resolution(body[8:])})
		case blockPacket:
			return r.enhanced(body)
		case blockSimple:
			if len(body) < 4 || len(r.interfaces) == 0 {
				return Packet{}, fmt.Errorf("%w: a packet of no interface", ErrFormat)
			}
			return Packet{Link: r.interfaces[0].link, Bytes: body[4:min(len(body), 4+int(r.order.Uint32(body)))]}, nil
		}
	}
}

// block reads one block. A section block tells the byte order of what follows.
func (r *Reader) block() (kind uint32, body []byte, err error) {
	head, _ := r.from.Peek(12) // take reports what went wrong
	if len(head) < 12 {
		_, err = r.take(12) // everything that is left, and the error that this causes
		return 0, nil, err
	}
	if binary.LittleEndian.Uint32(head) == blockSection { // the same in both orders
		r.order, r.interfaces = binary.ByteOrder(binary.LittleEndian), nil
		if binary.BigEndian.Uint32(head[8:]) == 0x1a2b3c4d {
			r.order = binary.BigEndian
		}
	}
	length := int(r.order.Uint32(head[4:]))
	if length < 12 || length%4 != 0 {
		return 0, nil, fmt.Errorf("%w: a block of %d bytes", ErrFormat, length)
	}
	whole, err := r.take(length)
	if err != nil {
		return 0, nil, err
	}
	return r.order.Uint32(whole), whole[8 : length-4], nil
}

// resolution returns the unit of an interface's times in seconds: a microsecond, or what its option 9 says.
func (r *Reader) resolution(options []byte) float64 {
	for len(options) >= 4 {
		code, length := r.order.Uint16(options), int(r.order.Uint16(options[2:]))
		if 4+length > len(options) || code == 0 {
			break
		}
		if code == 9 && length == 1 {
			if value := options[4]; value&0x80 != 0 {
				return math.Pow(2, -float64(value&0x7f))
			}
			return math.Pow(10, -float64(options[4]))
		}
		options = options[min(len(options), 4+(length+3)/4*4):]
	}
	return 1e-6
}

// enhanced reads the body of an enhanced packet block.
func (r *Reader) enhanced(body []byte) (Packet, error) {
	if len(body) < 20 || int(r.order.Uint32(body)) >= len(r.interfaces) {
		return Packet{}, fmt.Errorf("%w: a packet of no interface", ErrFormat)
	}
	of := r.interfaces[r.order.Uint32(body)]
	captured := int(r.order.Uint32(body[12:]))
	if captured > len(body)-20 {
		return Packet{}, fmt.Errorf("%w: a packet of %d bytes in a block of %d", ErrFormat, captured, len(body))
	}
	ticks := uint64(r.order.Uint32(body[4:]))<<32 | uint64(r.order.Uint32(body[8:]))
	whole, rest := math.Modf(float64(ticks) * of.tick)
	if of.tick == 1e-9 || of.tick == 1e-6 { // exactly
		unit := uint64(math.Round(of.tick * 1e9))
		return Packet{At: time.Unix(0, int64(ticks*unit)), Link: of.link, Bytes: body[20 : 20+captured]}, nil
	}
	return Packet{At: time.Unix(int64(whole), int64(rest*1e9)), Link: of.link, Bytes: body[20 : 20+captured]}, nil
}
