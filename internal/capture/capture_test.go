package capture_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/groupcast/groupcast/internal/capture"
)

// packet is 10.0.0.1:1000 to 10.0.0.2:2000, "hello", as IP.
var packet, _ = hex.DecodeString("4500002100000000401100000a0000010a00000203e807d0000d000068656c6c6f")

var hello = capture.Datagram{
	From: netip.MustParseAddrPort("10.0.0.1:1000"), To: netip.MustParseAddrPort("10.0.0.2:2000"), Payload: []byte("hello"),
}

func all(t *testing.T, file []byte) (packets []capture.Packet) {
	t.Helper()
	r, err := capture.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			return packets
		}
		if err != nil {
			t.Fatal(err)
		}
		packets = append(packets, p)
	}
}

func written(t testing.TB, packets ...capture.Packet) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := capture.NewWriter(&file, capture.Raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packets {
		if err := w.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	return file.Bytes()
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	want := []capture.Packet{
		{At: time.Unix(1000, 123456789), Link: capture.Raw, Bytes: packet},
		{At: time.Unix(1001, 0), Link: capture.Raw, Bytes: packet[:20]},
	}
	file := written(t, want...)
	if diff := cmp.Diff(want, all(t, file)); diff != "" {
		t.Error(diff)
	}
	for _, cut := range []int{1, len(packet[:20]) + 15} { // within the second packet, and within its header
		r, err := capture.NewReader(bytes.NewReader(file[:len(file)-cut]))
		if err != nil {
			t.Fatal(err)
		}
		_, first := r.Next()
		if _, second := r.Next(); first != nil || !errors.Is(second, capture.ErrCut) {
			t.Errorf("of a capture that is cut come %v and %v", first, second)
		}
	}
}

// Captures are read in both byte orders, and with both units of time.
func TestOrdersAndUnits(t *testing.T) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		for magic, unit := range map[uint32]time.Duration{0xa1b2c3d4: time.Microsecond, 0xa1b23c4d: time.Nanosecond} {
			file := order.AppendUint32(nil, magic)
			file = append(file, make([]byte, 16)...)
			for _, value := range []uint32{uint32(capture.Raw), 1000, 7, uint32(len(packet)), uint32(len(packet))} {
				file = order.AppendUint32(file, value)
			}
			got := all(t, append(file, packet...))
			want := []capture.Packet{{At: time.Unix(1000, int64(7*unit)), Link: capture.Raw, Bytes: packet}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%v, %v: %s", order, unit, diff)
			}
		}
	}
}

// block returns a block of pcapng.
func block(order binary.AppendByteOrder, kind uint32, body []byte) []byte {
	body = append(body, make([]byte, (4-len(body)%4)%4)...)
	b := order.AppendUint32(nil, kind)
	b = order.AppendUint32(b, uint32(12+len(body)))
	return order.AppendUint32(append(b, body...), uint32(12+len(body)))
}

// What Wireshark writes is read: sections, interfaces with their own units of time, blocks to skip.
func TestBlocks(t *testing.T) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		section := append(order.AppendUint32(nil, 0x1a2b3c4d), make([]byte, 12)...)
		device := func(resolution ...byte) []byte {
			b := order.AppendUint16(nil, uint16(capture.Raw))
			b = append(b, make([]byte, 6)...)
			if len(resolution) > 0 {
				b = order.AppendUint16(order.AppendUint16(b, 9), 1)
				b = append(b, resolution[0], 0, 0, 0)
			}
			return b
		}
		enhanced := func(device uint32, ticks uint64) []byte {
			var b []byte
			for _, value := range []uint32{device, uint32(ticks >> 32), uint32(ticks), uint32(len(packet)), uint32(len(packet))} {
				b = order.AppendUint32(b, value)
			}
			return append(b, packet...)
		}
		file := block(order, 0x0a0d0d0a, section)
		file = append(file, block(order, 1, device())...)
		file = append(file, block(order, 1, device(9))...)
		file = append(file, block(order, 5, []byte("statistics"))...)
		file = append(file, block(order, 6, enhanced(0, 1_000_000_007))...)
		file = append(file, block(order, 6, enhanced(1, 1_000_000_000_007))...)
		want := []capture.Packet{
			{At: time.Unix(1000, 7000), Link: capture.Raw, Bytes: packet},
			{At: time.Unix(1000, 7), Link: capture.Raw, Bytes: packet},
		}
		if diff := cmp.Diff(want, all(t, file)); diff != "" {
			t.Errorf("%v: %s", order, diff)
		}
	}
}

// Datagrams are found after each kind of header, and nothing else is taken for one.
func TestDatagrams(t *testing.T) {
	header := func(text string) []byte {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return append(b, packet...)
	}
	mac := "020000000001020000000002"
	for name, p := range map[string]capture.Packet{
		"bare":      {Link: capture.Raw, Bytes: packet},
		"padded":    {Link: capture.Raw, Bytes: append(append([]byte(nil), packet...), 0, 0, 0)},
		"Ethernet":  {Link: capture.Ethernet, Bytes: header(mac + "0800")},
		"two VLANs": {Link: capture.Ethernet, Bytes: header(mac + "88a80001" + "81000002" + "0800")},
		"cooked":    {Link: capture.Cooked, Bytes: header("0000000100060200000000010000" + "0800")},
		"cooked 2":  {Link: capture.Cooked2, Bytes: header("0800" + "0000000000020001000602000000000100" + "00")},
		"loopback":  {Link: capture.Null, Bytes: header("02000000")},
	} {
		got, is := p.Datagram()
		if diff := cmp.Diff(hello, got, cmpopts.EquateComparable(netip.AddrPort{})); !is || diff != "" {
			t.Errorf("%s: %v %s", name, is, diff)
		}
	}
	change := func(at int, to byte) capture.Packet {
		b := append([]byte(nil), packet...)
		b[at] = to
		return capture.Packet{Link: capture.Raw, Bytes: b}
	}
	for name, p := range map[string]capture.Packet{
		"IPv6": change(0, 0x65), "TCP": change(9, 6), "a fragment": change(7, 1), "its first": change(6, 0x20),
		"cut in its headers": {Link: capture.Raw, Bytes: packet[:27]}, "a long header": change(0, 0x4f),
		"a wrong length": change(25, 200), "nothing": {Link: capture.Ethernet}, "an unknown link": {Link: 77, Bytes: packet},
		"ARP": {Link: capture.Ethernet, Bytes: header(mac + "0806")},
	} {
		if _, is := p.Datagram(); is {
			t.Errorf("%s is a datagram", name)
		}
	}
	snapped := capture.Packet{Link: capture.Raw, Bytes: packet[:30]}
	if d, is := snapped.Datagram(); !is || !d.IsCut || d.From != hello.From || d.To != hello.To || string(d.Payload) != "he" {
		t.Errorf("of one that was cut by whoever captured it: %v %+v", is, d)
	}
}

// Live takes what an interface carries, by port, and Close ends it.
func TestLive(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("this needs root")
		}
		t.Skip("this needs root")
	}
	to, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	at := to.LocalAddr().(*net.UDPAddr).AddrPort()
	live, err := capture.Listen("lo", at.Port())
	if err != nil {
		t.Fatal(err)
	}
	other, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, send := range []struct {
		to   netip.AddrPort
		text string
	}{{other.LocalAddr().(*net.UDPAddr).AddrPort(), "not this"}, {at, "this"}} {
		if _, err := other.WriteToUDPAddrPort([]byte(send.text), send.to); err != nil {
			t.Fatal(err)
		}
	}
	p, err := live.Next()
	if err != nil {
		t.Fatal(err)
	}
	if d, is := p.Datagram(); !is || string(d.Payload) != "this" || d.To != at {
		t.Errorf("%v: %+v", is, d)
	}
	// After Admit, those of another port are taken, too; also with many ports.
	port := other.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	for i := range uint16(70) {
		if err := live.Admit(port + 10 - i); err != nil {
			t.Fatal(err)
		}
	}
	third, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 2)})
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	if _, err := third.WriteToUDPAddrPort([]byte("that"), other.LocalAddr().(*net.UDPAddr).AddrPort()); err != nil {
		t.Fatal(err)
	}
	for said := ""; said != "that"; { // what was sent before is seen both leaving and arriving
		p, err := live.Next()
		if err != nil {
			t.Fatal(err)
		}
		d, _ := p.Datagram()
		said = string(d.Payload)
	}
	ended := make(chan error)
	go func() {
		for {
			if _, err := live.Next(); err != nil {
				ended <- err
				return
			}
		}
	}()
	if err := live.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Errorf("ended with %v", err)
	}
	if _, err := capture.Listen("nowhere0", 1); err == nil {
		t.Error("an interface that is not there is listened on")
	}
}

func FuzzReader(f *testing.F) {
	f.Add(written(f, capture.Packet{At: time.Unix(1000, 0), Link: capture.Raw, Bytes: packet}))
	f.Add(append(block(binary.LittleEndian, 0x0a0d0d0a, make([]byte, 16)), block(binary.LittleEndian, 1, make([]byte, 8))...))
	f.Fuzz(func(_ *testing.T, file []byte) {
		r, err := capture.NewReader(bytes.NewReader(file))
		for err == nil {
			var p capture.Packet
			if p, err = r.Next(); err == nil {
				p.Datagram()
			}
		}
	})
}
