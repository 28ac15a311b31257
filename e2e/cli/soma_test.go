package cli

import (
	"encoding/binary"
	"os"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/groupcast/groupcast/internal/capture"
	wire "github.com/groupcast/groupcast/internal/wire/soma/paper"
)

// soma FILE [PORT] writes a capture of a small transfer: windows of 1 to 20 packets, 10 ms apart, each
// with an ACK; one packet is lost and repaired. Something else is on the port, too. Server and client may have another
// port than the group's.
func soma(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 || len(args) > 2 {
		ts.Fatalf("usage: soma FILE [PORT]")
	}
	port := uint16(groupPort)
	if len(args) == 2 {
		given, err := strconv.ParseUint(args[1], 10, 16)
		ts.Check(err)
		port = uint16(given)
	}
	file, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	defer file.Close()
	writer, err := capture.NewWriter(file, capture.Raw)
	ts.Check(err)
	const server, client = 0x0a000001, 0x0a000002
	at := time.Unix(1000, 0)
	write := func(from, to uint32, payload []byte) {
		ts.Check(writer.Write(capture.Packet{At: at, Link: capture.Raw, Bytes: datagram(from, to, port, payload)}))
	}
	sn := uint32(1)
	for size := uint32(1); size <= 20; size++ {
		last := sn + size - 1
		for ; sn <= last; sn++ {
			if sn != 5 {
				write(server, group, wire.Append(nil, wire.Packet{SN: sn, Type: wire.Data, LWSN: last, Payload: make([]byte, 512)}))
			}
		}
		write(client, group, wire.Append(nil, wire.Packet{SN: last, Type: wire.ACK, LWSN: last}))
		at = at.Add(10 * time.Millisecond)
	}
	write(client, server, wire.Append(nil, wire.Packet{SN: 5, Type: wire.RepairRequest, LWSN: 5}))
	write(server, client, wire.Append(nil, wire.Packet{SN: 5, Type: wire.RepairResponse, LWSN: 210, Payload: make([]byte, 512)}))
	write(client, server, []byte("something else"))
}

const (
	groupPort = 7431
	group     = 0xef070707
)

// datagram is one of UDP over IPv4.
func datagram(from, to uint32, port uint16, payload []byte) []byte {
	toPort := port
	if to == group {
		toPort = groupPort
	}
	b := []byte{0x45, 0}
	b = binary.BigEndian.AppendUint16(b, uint16(28+len(payload)))
	b = append(b, 0, 0, 0, 0, 16, 17, 0, 0)
	b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, from), to)
	b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, port), toPort)
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(payload)))
	return append(append(b, 0, 0), payload...)
}
