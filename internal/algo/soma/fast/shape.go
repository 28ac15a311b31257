package fast

import (
	"fmt"
	"math"

	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// Shape is how an object is cut.
type Shape struct {
	Length uint64 // of the object, in bytes
	Packet int    // the bytes of each packet but the last
}

// ShapeOf returns how an object is cut into datagrams of a size.
func ShapeOf(length uint64, datagram int) (Shape, error) {
	s := Shape{Length: length, Packet: datagram - wire.Overhead}
	if datagram < wire.MinDatagram || datagram > wire.MaxDatagram {
		return Shape{}, fmt.Errorf("datagrams of %d bytes: want %d to %d", datagram, wire.MinDatagram, wire.MaxDatagram)
	}
	if length/s.Block() >= math.MaxInt32 {
		return Shape{}, fmt.Errorf("object of %d bytes: at most %d blocks of %d bytes are replicated", length, math.MaxInt32, s.Block())
	}
	return s, nil
}

// Block is how many bytes a block has, but the last.
func (s Shape) Block() uint64 { return uint64(s.Packet) * wire.PacketsPerBlock }

// Blocks is how many blocks there are.
func (s Shape) Blocks() uint32 { return uint32((s.Length + s.Block() - 1) / s.Block()) }

// Size is how many bytes a block has.
func (s Shape) Size(block uint32) int {
	return int(min(s.Block(), s.Length-uint64(block)*s.Block()))
}

// Packets is how many packets a block has.
func (s Shape) Packets(block uint32) int { return (s.Size(block) + s.Packet - 1) / s.Packet }

// all is the mask of all packets of a block.
func (s Shape) all(block uint32) uint64 { return 1<<s.Packets(block) - 1 }
