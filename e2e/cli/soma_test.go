package cli

import (
	"encoding/binary"
	"os"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/groupcast/groupcast/internal/capture"
	"github.com/groupcast/groupcast/internal/wire/soma/fast"
	wire "github.com/groupcast/groupcast/internal/wire/soma/paper"
)

// soma FILE [PORT] writes a capture of a small transfer: windows of 1 to 20 packets, 10 ms apart, each with an ACK;
// one packet is lost and repaired. There is other traffic on the port, too. Server and client may have another port
// than the group. With sealed in place of PORT it is a transfer in the default profile, in which servers always have
// another port. With snapped there is no more of any packet than 96 bytes.
func soma(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 || len(args) > 2 {
		ts.Fatalf("usage: soma FILE [PORT|sealed|snapped]")
	}
	port, isSealed, snap := uint16(groupPort), len(args) == 2 && args[1] == "sealed", 1<<16
	switch {
	case len(args) == 2 && args[1] == "snapped":
		snap = 96
	case isSealed:
		port = 40000
	case len(args) == 2:
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
		whole := datagram(from, to, port, payload)
		ts.Check(writer.Write(capture.Packet{At: at, Link: capture.Raw, Bytes: whole[:min(snap, len(whole))]}))
	}
	if isSealed {
		session := fast.NewSecret([]byte("key"), fast.Salt{0xa1, 0xb2, 2, 5}).Group() // looks like an ACK of the paper's profile
		write(server, group, session.Seal(nil, fast.Head{Kind: fast.Data, Index: 3, Block: 7, Number: 1234}, make([]byte, 1440)))
		write(server, group, session.Seal(nil, fast.Head{Kind: fast.Poll, Number: 1235}, make([]byte, 60)))
		write(client, server, session.Seal(nil, fast.Head{Kind: fast.Report, Block: 1, Number: 6}, make([]byte, 32)))
		return
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

// datagram returns a UDP datagram over IPv4.
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
