package link

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// TLS records, of which the opening of a link consists.
const (
	recordHeader = 5
	maxRecord    = 16<<10 + 256
)

// gate lets no reader see further than the TLS record that it is reading. So it is
// known, on both ends, where the last record of an opening ends and what is not
// encrypted begins. Once open it is not there.
type gate struct {
	net.Conn
	open   bool
	header [recordHeader]byte
	begun  int // bytes of the header that came
	given  int // bytes of the header that were passed on
	left   int // bytes of the record's body that are to come
}

func (g *gate) Read(p []byte) (int, error) {
	if g.open {
		return g.Conn.Read(p)
	}
	if g.left == 0 && g.given == g.begun {
		if err := g.next(); err != nil {
			return 0, err
		}
	}
	if g.given < g.begun {
		n := copy(p, g.header[g.given:])
		g.given += n
		return n, nil
	}
	n, err := g.Conn.Read(p[:min(len(p), g.left)])
	g.left -= n
	return n, err
}

// next reads the header of the next record.
func (g *gate) next() error {
	g.begun, g.given = 0, 0
	if _, err := io.ReadFull(g.Conn, g.header[:]); err != nil {
		return err
	}
	g.begun = recordHeader
	g.left = int(binary.BigEndian.Uint16(g.header[3:]))
	if g.left > maxRecord {
		return fmt.Errorf("%w: record of %d bytes", errNotTLS, g.left)
	}
	return nil
}
