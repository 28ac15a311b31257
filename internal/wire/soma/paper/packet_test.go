package paper_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/groupcast/groupcast/internal/wire/soma/paper"
)

// "The SOMA packet header consists of 4 fields: the Sequence Number (SN, 4 bytes long) […], the
// Type Of Packet (TOP, 1 byte) […], the Payload Length (PL, 2 bytes) indicates the total packet
// length in bytes, the Last Window Sequence Number (LWSN, 4 bytes)" (§III-B)
func TestHeaderIsThePapers(t *testing.T) {
	got := paper.Append(nil, paper.Packet{SN: 0x01020304, Type: paper.Data, LWSN: 0x05060708, Payload: []byte("x")})
	want := []byte{1, 2, 3, 4, 1, 0, 12, 5, 6, 7, 8, 'x'}
	if !bytes.Equal(got, want) {
		t.Errorf("got  % x\nwant % x", got, want)
	}
	if full := (paper.Packet{Payload: make([]byte, paper.PayloadSize)}); full.Length() != 523 {
		t.Errorf("a full packet has %d bytes", full.Length())
	}
}

func TestPacketsComeBack(t *testing.T) {
	for _, p := range []paper.Packet{
		{SN: 1, Type: paper.Data, LWSN: 1},
		{SN: 7, Type: paper.Data, LWSN: 100, Payload: []byte("payload")},
		{SN: paper.MaxSN, Type: paper.Data, LWSN: paper.MaxSN, Payload: make([]byte, paper.MaxPayload)},
		{SN: 100, Type: paper.ACK, LWSN: 100},
		{SN: 9, Type: paper.NACK, LWSN: 12},
		{SN: 8, Type: paper.RepairRequest, LWSN: 8},
		{SN: 8, Type: paper.RepairResponse, LWSN: 2, Payload: []byte("again")},
	} {
		got, err := paper.Parse(paper.Append(nil, p))
		if diff := cmp.Diff(p, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%v: %v\n%s", p, err, diff)
		}
	}
}

// Different payload sizes are all the same to Parse, and what is not a packet is refused.
func TestWhatIsNoPacketIsRefused(t *testing.T) {
	packet := func(sn uint32, top byte, pl uint16, lwsn uint32, payload int) []byte {
		b := paper.Append(nil, paper.Packet{SN: sn, Type: paper.Type(top), LWSN: lwsn, Payload: make([]byte, payload)})
		b[5], b[6] = byte(pl>>8), byte(pl)
		return b
	}
	for name, c := range map[string]struct {
		datagram []byte
		reason   string
	}{
		"nothing":                {nil, "0 bytes"},
		"a header cut short":     {packet(1, 1, 10, 1, 0)[:10], "no header"},
		"PL too small":           {packet(1, 1, 11, 1, 1), "PL is 11"},
		"PL too large":           {packet(1, 1, 13, 1, 1), "PL is 13"},
		"no sequence number":     {packet(0, 1, 12, 1, 1), "SN is 0"},
		"TOP 0":                  {packet(1, 0, 11, 1, 0), "TOP(0)"},
		"TOP 6":                  {packet(1, 6, 11, 1, 0), "TOP(6)"},
		"beyond its own window":  {packet(9, 1, 12, 8, 1), "ends with 8"},
		"an ACK with a payload":  {packet(8, 2, 12, 8, 1), "ACK with a payload"},
		"a NACK with a payload":  {packet(8, 3, 12, 8, 1), "NACK with a payload"},
		"a request with payload": {packet(8, 4, 12, 8, 1), "REPAIR-REQUEST with a payload"},
	} {
		_, err := paper.Parse(c.datagram)
		if !errors.Is(err, paper.ErrMalformed) || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// "Our customized tcpdump displays all the packet information in only one line" (§V)
func TestPacketInOneLine(t *testing.T) {
	p := paper.Packet{SN: 17, Type: paper.Data, LWSN: 20, Payload: make([]byte, 512)}
	if got := p.String(); got != "SOMA DATA sn 17 lwsn 20 pl 523" {
		t.Error(got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte{})
	f.Add(paper.Append(nil, paper.Packet{SN: 1, Type: paper.Data, LWSN: 2, Payload: []byte("x")}))
	f.Add(paper.Append(nil, paper.Packet{SN: 2, Type: paper.NACK, LWSN: 2}))
	f.Fuzz(func(t *testing.T, datagram []byte) {
		p, err := paper.Parse(datagram)
		if err != nil {
			if !errors.Is(err, paper.ErrMalformed) {
				t.Errorf("%v is not ErrMalformed", err)
			}
			return
		}
		if again := paper.Append(nil, p); !bytes.Equal(again, datagram) {
			t.Errorf("% x became % x", datagram, again)
		}
		if strings.ContainsAny(p.String(), "\n\r") {
			t.Errorf("%q is not one line", p.String())
		}
	})
}
