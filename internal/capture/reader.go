package capture

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// ErrFormat says that a file is not a capture, or is damaged.
var ErrFormat = errors.New("not a capture in pcap or pcapng")

// ErrCut says that a capture ends within a packet, as it may while it is still being written.
var ErrCut = errors.New("the capture is cut: it ends within a packet")

// longest is the greatest length of a packet or block in a capture, in bytes.
const longest = 1 << 20

// Reader reads a capture, of either format.
type Reader struct {
	from  *bufio.Reader
	order binary.ByteOrder
	next  func() (Packet, error)

	link LinkType // pcap
	tick time.Duration

	interfaces []origin // pcapng
}

// NewReader reads a capture's beginning.
func NewReader(from io.Reader) (*Reader, error) {
	r := &Reader{from: bufio.NewReaderSize(from, 1<<16)}
	magic, err := r.from.Peek(4)
	if err != nil {
		return nil, fmt.Errorf("%w: it is too short", ErrFormat)
	}
	switch string(magic) {
	case "\xd4\xc3\xb2\xa1":
		r.order, r.tick = binary.LittleEndian, time.Microsecond
	case "\xa1\xb2\xc3\xd4":
		r.order, r.tick = binary.BigEndian, time.Microsecond
	case "\x4d\x3c\xb2\xa1":
		r.order, r.tick = binary.LittleEndian, time.Nanosecond
	case "\xa1\xb2\x3c\x4d":
		r.order, r.tick = binary.BigEndian, time.Nanosecond
	case "\x0a\x0d\x0d\x0a":
		r.next = r.nextBlocks
		return r, nil
	default:
		return nil, ErrFormat
	}
	header, err := r.take(24)
	if err != nil {
		return nil, err
	}
	r.link, r.next = LinkType(r.order.Uint32(header[20:])&0xffff), r.nextRecord
	return r, nil
}

// Next returns the next packet, io.EOF, or ErrCut.
func (r *Reader) Next() (Packet, error) {
	p, err := r.next()
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = ErrCut
	}
	return p, err
}

// take reads so many bytes.
func (r *Reader) take(n int) ([]byte, error) {
	if n < 0 || n > longest {
		return nil, fmt.Errorf("%w: a piece of %d bytes", ErrFormat, n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(r.from, b)
	return b, err
}

// nextRecord reads a record of pcap.
func (r *Reader) nextRecord() (Packet, error) {
	header, err := r.take(16)
	if err != nil {
		return Packet{}, err
	}
	bytes, err := r.take(int(r.order.Uint32(header[8:])))
	if err != nil {
		return Packet{}, err
	}
	at := time.Unix(int64(r.order.Uint32(header[0:])), int64(r.order.Uint32(header[4:]))*int64(r.tick))
	return Packet{At: at, Link: r.link, Bytes: bytes}, nil
}
