// Package dissector tests the Wireshark dissector of SOMA, in docs, with tshark.
package dissector

import (
	"encoding/binary"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/capture"
	"github.com/groupcast/groupcast/internal/wire/soma/fast"
	wire "github.com/groupcast/groupcast/internal/wire/soma/paper"
)

var (
	server = netip.MustParseAddrPort("10.0.0.1:7431")
	client = netip.MustParseAddrPort("10.0.0.2:7431")
	group  = netip.MustParseAddrPort("239.7.7.7:7431")
)

// write writes a capture of datagrams.
func write(t *testing.T, datagrams ...capture.Datagram) (name string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "soma.pcap")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w, err := capture.NewWriter(file, capture.Raw)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range datagrams {
		if err := w.Write(capture.Packet{At: time.Unix(1000, int64(i)), Link: capture.Raw, Bytes: ip(d)}); err != nil {
			t.Fatal(err)
		}
	}
	return name
}

// ip returns a UDP datagram over IPv4 without checksums, which nobody checks.
func ip(d capture.Datagram) []byte {
	length := 28 + len(d.Payload)
	b := append([]byte{0x45, 0}, byte(length>>8), byte(length), 0, 0, 0, 0, 16, 17, 0, 0)
	b = append(append(b, d.From.Addr().AsSlice()...), d.To.Addr().AsSlice()...)
	b = binary.BigEndian.AppendUint16(b, d.From.Port())
	b = binary.BigEndian.AppendUint16(b, d.To.Port())
	b = binary.BigEndian.AppendUint16(b, uint16(length-20))
	return append(append(b, 0, 0), d.Payload...)
}

// tshark prints fields of every packet, one line per packet.
func tshark(t *testing.T, name string, arguments ...string) []string {
	t.Helper()
	program, err := exec.LookPath("tshark")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("tshark is not installed: apt install tshark")
	}
	arguments = append([]string{"-X", "lua_script:../../docs/wireshark/soma.lua", "-r", name}, arguments...)
	var said strings.Builder
	command := exec.Command(program, arguments...)
	command.Stderr = &said
	text, err := command.Output()
	if err != nil || strings.Contains(said.String(), "Lua: ") {
		t.Fatalf("%v: %v\n%s", arguments, err, said.String())
	}
	return strings.Split(strings.TrimRight(string(text), "\n"), "\n")
}

// "we have modified two well-known open-source sniffers (tcpdump and ethereal) to interpret our
// protocol packets" (004 §I)
func TestDissectorReadsEveryType(t *testing.T) {
	packet := func(from, to netip.AddrPort, p wire.Packet) capture.Datagram {
		return capture.Datagram{From: from, To: to, Payload: wire.Append(nil, p)}
	}
	name := write(t,
		packet(server, group, wire.Packet{SN: 7, Type: wire.Data, LWSN: 9, Payload: make([]byte, 512)}),
		packet(server, group, wire.Packet{SN: 9, Type: wire.Data, LWSN: 9}),
		packet(client, group, wire.Packet{SN: 9, Type: wire.ACK, LWSN: 9}),
		packet(client, server, wire.Packet{SN: 9, Type: wire.NACK, LWSN: 9}),
		packet(client, server, wire.Packet{SN: 8, Type: wire.RepairRequest, LWSN: 8}),
		packet(server, client, wire.Packet{SN: 8, Type: wire.RepairResponse, LWSN: 9, Payload: []byte("x")}),
	)
	fields := tshark(t, name, "-T", "fields", "-E", "separator= ", "-e", "soma.sn", "-e", "soma.top", "-e", "soma.pl", "-e", "soma.lwsn", "-e", "soma.last", "-e", "soma.end")
	for i, want := range []string{"7 1 523 9 0 0", "9 1 11 9 1 1", "9 2 11 9", "9 3 11 9", "8 4 11 8", "8 5 12 9"} {
		if i >= len(fields) || strings.TrimSpace(strings.NewReplacer("False", "0", "True", "1").Replace(fields[i])) != want {
			t.Errorf("packet %d: %q, want %q", i+1, fields, want)
		}
	}
	// There is one line for each packet, in the form of groupcast soma decode.
	lines := tshark(t, name, "-T", "fields", "-e", "_ws.col.Protocol", "-e", "_ws.col.Info")
	if want := "SOMA\tDATA sn 7 lwsn 9 pl 523"; lines[0] != want {
		t.Errorf("%q, want %q", lines[0], want)
	}
}

// Repairs go between the ports of server and client, which may differ from the group's: they belong to the transfer. Other
// traffic on other ports that looks like SOMA does not.
func TestDissectorKnowsServersByTheirGroup(t *testing.T) {
	far, near := netip.AddrPortFrom(server.Addr(), 40000), netip.AddrPortFrom(client.Addr(), 40001)
	packet := func(from, to netip.AddrPort, p wire.Packet) capture.Datagram {
		return capture.Datagram{From: from, To: to, Payload: wire.Append(nil, p)}
	}
	name := write(t,
		packet(far, group, wire.Packet{SN: 9, Type: wire.Data, LWSN: 9}),
		packet(near, far, wire.Packet{SN: 8, Type: wire.RepairRequest, LWSN: 8}),
		packet(far, near, wire.Packet{SN: 8, Type: wire.RepairResponse, LWSN: 9, Payload: []byte("x")}),
		packet(near, netip.AddrPortFrom(server.Addr(), 40002), wire.Packet{SN: 8, Type: wire.RepairRequest, LWSN: 8}),
	)
	lines := tshark(t, name, "-T", "fields", "-e", "soma.top")
	if len(lines) < 3 || strings.Join(lines[:3], " ") != "1 4 5" || len(lines) > 3 && lines[3] != "" {
		t.Errorf("%q", lines)
	}
}

// What is not a packet of this layout is left to other dissectors; a wrong length is reported.
func TestDissectorRefuses(t *testing.T) {
	wrong := wire.Append(nil, wire.Packet{SN: 7, Type: wire.Data, LWSN: 9, Payload: []byte("xy")})
	wrong[6]--
	name := write(t,
		capture.Datagram{From: server, To: group, Payload: []byte("hello")},
		capture.Datagram{From: server, To: group, Payload: wrong},
	)
	lines := tshark(t, name, "-T", "fields", "-e", "_ws.col.Protocol", "-e", "soma.length.wrong")
	if !strings.HasPrefix(lines[0], "UDP") || lines[1] == "SOMA" || !strings.HasPrefix(lines[1], "SOMA") {
		t.Errorf("%q", lines)
	}
}

// Packets of the default profile use the same port, and are not taken for this layout, whatever their session.
func TestDissectorLeavesTheDefaultProfileAlone(t *testing.T) {
	var all []capture.Datagram
	for kind := byte(1); kind <= 5; kind++ {
		box := fast.NewSecret([]byte("key"), fast.Salt{0xa1, 0xb2, kind, 5}).Group() // the third byte is where a type would be
		all = append(all, capture.Datagram{From: server, To: group, Payload: box.Seal(nil, fast.Head{Kind: fast.Data, Block: 1 << 20, Number: 9}, make([]byte, 1440))})
	}
	for _, line := range tshark(t, write(t, all...), "-T", "fields", "-e", "_ws.col.Protocol") {
		if line != "UDP" {
			t.Errorf("%q", line)
		}
	}
}
