package capture

import (
	"encoding/binary"
	"fmt"
	"io"
)

// snapLength is what a capture's header says that packets were cut to.
const snapLength = 1 << 18

// Writer writes a capture in pcap, with times in nanoseconds.
type Writer struct {
	to   io.Writer
	link LinkType
}

// NewWriter writes a capture's beginning. All its packets have one link type.
func NewWriter(to io.Writer, link LinkType) (*Writer, error) {
	header := binary.LittleEndian.AppendUint32(nil, 0xa1b23c4d)
	header = binary.LittleEndian.AppendUint16(header, 2)
	header = binary.LittleEndian.AppendUint16(header, 4)
	header = append(header, make([]byte, 8)...)
	header = binary.LittleEndian.AppendUint32(header, snapLength)
	header = binary.LittleEndian.AppendUint32(header, uint32(link))
	if _, err := to.Write(header); err != nil {
		return nil, fmt.Errorf("write a capture: %w", err)
	}
	return &Writer{to: to, link: link}, nil
}

// Write adds a packet.
func (w *Writer) Write(p Packet) error {
	if p.Link != w.link || len(p.Bytes) > snapLength {
		return fmt.Errorf("write a capture: a packet of link type %d with %d bytes into one of type %d", p.Link, len(p.Bytes), w.link)
	}
	record := binary.LittleEndian.AppendUint32(nil, uint32(p.At.Unix()))
	record = binary.LittleEndian.AppendUint32(record, uint32(p.At.Nanosecond()))
	record = binary.LittleEndian.AppendUint32(record, uint32(len(p.Bytes)))
	record = binary.LittleEndian.AppendUint32(record, uint32(len(p.Bytes)))
	if _, err := w.to.Write(append(record, p.Bytes...)); err != nil {
		return fmt.Errorf("write a capture: %w", err)
	}
	return nil
}
