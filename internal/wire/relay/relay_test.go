package relay_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/groupcast/groupcast/internal/wire/relay"
)

var delivery = relay.DeliveryID{0: 0xaa, 15: 0xbb}

// The bytes of version 1 do not change: other versions have to read them.
func TestBytesOfVersion1(t *testing.T) {
	for name, c := range map[string]struct{ got, want []byte }{
		"hello": {
			relay.Hello{Stripe: 1, Stripes: 4, Delivery: delivery, TreeVersion: 7, From: 1 << 20, Capability: []byte("cap")}.Append(nil),
			[]byte("GCRL\x01\x01\x04\x00" +
				"\xaa\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xbb" +
				"\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x10\x00\x00" + "\x00\x03cap"),
		},
		"welcome": {relay.Welcome{TreeVersion: 7, From: 1 << 20}.Append(nil), []byte("GCRL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x10\x00\x00")},
		"join": {
			relay.Hello{Stripe: 3, Stripes: 4, Offer: true, Plaintext: true, Join: true}.Append(nil)[:8], []byte("GCRL\x01\x03\x04\x07"),
		},
		"stripes": {
			relay.Header{Type: relay.Stripes, Offset: 4, TreeVersion: 3}.Append(nil),
			[]byte("\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x03"),
		},
		"data": {
			relay.Header{Type: relay.Data, Length: 5, Offset: 258, TreeVersion: 3}.Append(nil),
			[]byte("\x01\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x00\x00\x00\x03"),
		},
		"bye": {
			relay.AppendBye(nil, relay.Slow, "lag", 9, 3),
			[]byte("\x06\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00\x03\x00\x06lag"),
		},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestHandshakeRoundTrip(t *testing.T) {
	hello := relay.Hello{Stripe: 15, Stripes: 16, Join: true, Delivery: delivery, TreeVersion: math.MaxUint64, From: relay.MaxOffset, Capability: bytes.Repeat([]byte{1}, relay.MaxCapability)}
	read, err := relay.ReadHello(bytes.NewReader(hello.Append(nil)))
	if diff := cmp.Diff(hello, read); err != nil || diff != "" {
		t.Errorf("hello: %v (-want +got):\n%s", err, diff)
	}
	welcome := relay.Welcome{TreeVersion: 12, From: 99}
	if read, err := relay.ReadWelcome(bytes.NewReader(welcome.Append(nil))); err != nil || read != welcome {
		t.Errorf("welcome: %v %v", read, err)
	}
	var refusal *relay.Refusal
	_, err = relay.ReadWelcome(bytes.NewReader(relay.AppendBye(nil, relay.Denied, "expired", 0, 1)))
	if !errors.As(err, &refusal) || refusal.Reason != relay.Denied || refusal.Text != "expired" {
		t.Errorf("refusal: %v", err)
	}
}

// C11: frames of length 0, the cap plus one, 2^31 and 2^32-1, and everything else that no correct
// peer sends, are refused by their header alone.
func TestC11AbsurdFrames(t *testing.T) {
	for name, h := range map[string]relay.Header{
		"no data":              {Type: relay.Data},
		"data over the cap":    {Type: relay.Data, Length: relay.MaxData + 1},
		"data of 2^31":         {Type: relay.Data, Length: 1 << 31},
		"data of 2^32-1":       {Type: relay.Data, Length: math.MaxUint32},
		"data beyond the end":  {Type: relay.Data, Length: 1, Offset: relay.MaxOffset},
		"a negative offset":    {Type: relay.Credit, Offset: 1 << 63},
		"a short root":         {Type: relay.End, Length: 31},
		"a long root":          {Type: relay.End, Length: 33},
		"an ack with payload":  {Type: relay.Ack, Level: relay.Durable, Length: 1},
		"an ack of no level":   {Type: relay.Ack},
		"an ack of level 4":    {Type: relay.Ack, Level: 4},
		"data with a level":    {Type: relay.Data, Length: 1, Level: relay.Relayed},
		"credit with payload":  {Type: relay.Credit, Length: 1},
		"a bye without reason": {Type: relay.Bye, Length: 1},
		"a long bye":           {Type: relay.Bye, Length: 259},
		"type 0":               {},
		"no stripes":           {Type: relay.Stripes},
		"17 stripes":           {Type: relay.Stripes, Offset: 17},
		"stripes with payload": {Type: relay.Stripes, Offset: 2, Length: 1},
		"type 8":               {Type: 8},
	} {
		if _, err := relay.ParseHeader(h.Append(nil)); !errors.Is(err, relay.ErrProtocol) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
	reserved := relay.Header{Type: relay.Credit}.Append(nil)
	reserved[2] = 1
	if _, err := relay.ParseHeader(reserved); !errors.Is(err, relay.ErrProtocol) {
		t.Errorf("reserved bytes: %v, want it refused", err)
	}
}

func TestAbsurdHellos(t *testing.T) {
	good := relay.Hello{Stripes: 1, Delivery: delivery, Capability: []byte("cap")}
	for name, spoil := range map[string]func([]byte) []byte{
		"another protocol":        func(b []byte) []byte { copy(b, "GET "); return b },
		"another version":         func(b []byte) []byte { b[4] = 2; return b },
		"stripe past last":        func(b []byte) []byte { b[5] = 1; return b },
		"no stripes":              func(b []byte) []byte { b[6] = 0; return b },
		"17 stripes":              func(b []byte) []byte { b[6] = 17; return b },
		"flags that nobody knows": func(b []byte) []byte { b[7] = 16; return b },
		"plaintext datagrams":     func(b []byte) []byte { b[7] = 10; return b },
		"a negative offset":       func(b []byte) []byte { b[32] = 0x80; return b },
		"a huge capability":       func(b []byte) []byte { b[40], b[41] = 0xff, 0xff; return b },
	} {
		if _, err := relay.ReadHello(bytes.NewReader(spoil(good.Append(nil)))); !errors.Is(err, relay.ErrProtocol) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
	whole := good.Append(nil)
	for size := range len(whole) {
		if _, err := relay.ReadHello(bytes.NewReader(whole[:size])); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the first %d bytes: %v, want the end", size, err)
		}
	}
}

func TestByeTextIsCutBetweenCharacters(t *testing.T) {
	frame := relay.AppendBye(nil, relay.Protocol, strings.Repeat("ä", 200), 0, 0)
	reason, text, err := relay.ParseBye(frame[relay.HeaderSize:])
	if err != nil || reason != relay.Protocol || text != strings.Repeat("ä", 128) {
		t.Errorf("%v %q %v", reason, text, err)
	}
	if _, _, err := relay.ParseBye([]byte{0, 1, 0xff}); !errors.Is(err, relay.ErrProtocol) {
		t.Errorf("text that is no UTF-8: %v, want it refused", err)
	}
}

// Whatever comes, a header is either refused or written back exactly as it came.
func FuzzParseHeader(f *testing.F) {
	f.Add(relay.Header{Type: relay.Data, Length: 1 << 20, Offset: 1 << 40, TreeVersion: 2}.Append(nil))
	f.Add(relay.Header{Type: relay.Ack, Level: relay.Received, Offset: 5}.Append(nil))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) < relay.HeaderSize {
			return
		}
		h, err := relay.ParseHeader(frame)
		if err == nil && !bytes.Equal(h.Append(nil), frame[:relay.HeaderSize]) {
			t.Errorf("%x is read as %+v", frame[:relay.HeaderSize], h)
		}
	})
}

// Whatever comes, a hello is either refused or written back exactly as it came.
func FuzzReadHello(f *testing.F) {
	f.Add(relay.Hello{Stripes: 1, Delivery: delivery, Datagrams: true}.Append(nil))
	f.Add(relay.Hello{Stripe: 1, Stripes: 2, Delivery: delivery, TreeVersion: 1, From: 9, Capability: []byte("cap")}.Append(nil))
	f.Fuzz(func(t *testing.T, begun []byte) {
		hello, err := relay.ReadHello(bytes.NewReader(begun))
		if written := hello.Append(nil); err == nil && !bytes.Equal(written, begun[:len(written)]) {
			t.Errorf("%x is read as %+v", begun, hello)
		}
	})
}

// Whatever comes as the answer to a hello is read without harm.
func FuzzReadWelcome(f *testing.F) {
	f.Add(relay.Welcome{TreeVersion: 1}.Append(nil))
	f.Add(relay.AppendBye(nil, relay.Unknown, "gone", 0, 0))
	f.Fuzz(func(t *testing.T, answer []byte) {
		welcome, err := relay.ReadWelcome(bytes.NewReader(answer))
		if written := welcome.Append(nil); err == nil && !bytes.Equal(written, answer[:len(written)]) {
			t.Errorf("%x is read as %+v", answer, welcome)
		}
	})
}

// Whatever a link ends with is either refused or written back exactly as it came.
func FuzzParseBye(f *testing.F) {
	f.Add(relay.AppendBye(nil, relay.Slow, "too slow", 7, 1)[relay.HeaderSize:])
	f.Add([]byte{0xff, 0xff})
	f.Fuzz(func(t *testing.T, payload []byte) {
		reason, text, err := relay.ParseBye(payload)
		if err == nil && !bytes.Equal(relay.AppendBye(nil, reason, text, 0, 0)[relay.HeaderSize:], payload) {
			t.Errorf("%x is read as %v %q", payload, reason, text)
		}
	})
}
