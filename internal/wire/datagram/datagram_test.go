package datagram_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	wire "github.com/groupcast/groupcast/internal/wire/datagram"
)

func secret(seed byte) (s wire.Secret) {
	for i := range s {
		s[i] = seed + byte(i)
	}
	return s
}

func TestSealedIsOpened(t *testing.T) {
	for name, h := range map[string]wire.Header{
		"data":   {Number: 1, Departure: 2, Sequence: 3, Sent: 4, RoundTrip: 5, Kind: wire.Data},
		"parity": {Number: 1 << 40, Departure: 2, Sequence: 30, Sent: 4, RoundTrip: 5, Kind: wire.Parity, Count: 10, Index: 1},
	} {
		payload := bytes.Repeat([]byte{7}, 100)
		whole := secret(1).Down().Seal(nil, h, payload)
		if len(whole) != len(payload)+wire.Overhead {
			t.Errorf("%s: %d bytes for a payload of %d", name, len(whole), len(payload))
		}
		if bytes.Contains(whole, payload) {
			t.Errorf("%s: the payload can be read", name)
		}
		if link, ok := wire.LinkOf(whole); !ok || link != secret(1).Link() {
			t.Errorf("%s: of link %x, %v", name, link, ok)
		}
		opened, got, err := secret(1).Down().Open(whole)
		if err != nil || !bytes.Equal(got, payload) {
			t.Errorf("%s: opened %d bytes: %v", name, len(got), err)
		}
		if diff := cmp.Diff(h, opened); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestLargestFits(t *testing.T) {
	data := secret(1).Down().Seal(nil, wire.Header{Kind: wire.Data}, make([]byte, wire.MaxPayload))
	block := wire.AppendBlock(nil, 1, make([]byte, wire.MaxPayload), 0)
	parity := secret(1).Down().Seal(nil, wire.Header{Kind: wire.Parity, Count: 1}, block)
	if len(parity) != wire.MaxDatagram {
		t.Errorf("the largest parity has %d bytes: want %d", len(parity), wire.MaxDatagram)
	}
	for _, whole := range [][]byte{data, parity} {
		if _, _, err := secret(1).Down().Open(whole); err != nil {
			t.Error(err)
		}
	}
}

// Every bit is authenticated, including those sent in the clear.
func TestForgedIsRefused(t *testing.T) {
	seal := func() []byte {
		return secret(1).Down().Seal(nil, wire.Header{Number: 9, Kind: wire.Data}, []byte("payload"))
	}
	for i := range seal() {
		whole := seal()
		whole[i] ^= 1
		if _, _, err := secret(1).Down().Open(whole); !errors.Is(err, wire.ErrForged) {
			t.Errorf("with byte %d changed: %v", i, err)
		}
	}
	for name, box := range map[string]*wire.Box{"the other direction": secret(1).Up(), "another link": secret(2).Down()} {
		if _, _, err := box.Open(seal()); !errors.Is(err, wire.ErrForged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, length := range []int{0, 15, wire.Overhead - 1} {
		if _, _, err := secret(1).Down().Open(seal()[:length]); !errors.Is(err, wire.ErrForged) {
			t.Errorf("cut to %d bytes: %v", length, err)
		}
	}
}

// A neighbour that has the key is not believed everything.
func TestImpossibleIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		wire.Header
		payload int
	}{
		"kind 0":                 {wire.Header{}, 1},
		"kind 4":                 {wire.Header{Kind: 4}, 1},
		"data with an index":     {wire.Header{Kind: wire.Data, Index: 1}, 1},
		"data too long":          {wire.Header{Kind: wire.Data}, wire.MaxPayload + 1},
		"parity of nothing":      {wire.Header{Kind: wire.Parity}, 10},
		"parity of too many":     {wire.Header{Kind: wire.Parity, Count: wire.MaxCount + 1}, 10},
		"parity shorter than it": {wire.Header{Kind: wire.Parity, Count: 1}, 9},
		"a report of one byte":   {wire.Header{Kind: wire.Feedback}, 1},
		"the last sequence":      {wire.Header{Kind: wire.Data, Sequence: math.MaxUint64}, 1},
		"parity of the last":     {wire.Header{Kind: wire.Parity, Count: 1, Sequence: math.MaxUint64}, 10},
		"the last number":        {wire.Header{Kind: wire.Data, Number: math.MaxUint64}, 1},
	} {
		whole := secret(1).Down().Seal(nil, c.Header, make([]byte, c.payload))
		if _, _, err := secret(1).Down().Open(whole); !errors.Is(err, wire.ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBlocks(t *testing.T) {
	block := wire.AppendBlock(nil, 77, []byte("abc"), 20)
	if len(block) != 20 {
		t.Fatalf("a block of %d bytes: want 20", len(block))
	}
	sent, payload, err := wire.ParseBlock(block)
	if err != nil || sent != 77 || string(payload) != "abc" {
		t.Errorf("got %d %q %v", sent, payload, err)
	}
	for _, broken := range [][]byte{block[:9], {0, 0, 0, 0, 0, 0, 0, 0, 0, 1}} {
		if _, _, err := wire.ParseBlock(broken); !errors.Is(err, wire.ErrProtocol) {
			t.Errorf("%x: %v", broken, err)
		}
	}
}

func TestReports(t *testing.T) {
	report := wire.Report{Number: 1, Departure: 2, HeldFor: 3, Received: 4, Lost: 5, BytesPerSecond: 6, LossEventRate: wire.Certain}
	got, err := wire.ParseReport(report.Append(nil))
	if err != nil || got != report {
		t.Errorf("got %+v, %v", got, err)
	}
	report.LossEventRate++
	for _, broken := range [][]byte{report.Append(nil), nil, make([]byte, wire.ReportSize+1)} {
		if _, err := wire.ParseReport(broken); !errors.Is(err, wire.ErrProtocol) {
			t.Errorf("%x: %v", broken, err)
		}
	}
}

// Whatever comes is refused, or is the same when it is encoded again.
func FuzzOpen(f *testing.F) {
	f.Add([]byte("payload"), uint64(3), uint8(wire.Data), uint8(0), uint16(0), false)
	f.Add(make([]byte, 30), uint64(3), uint8(wire.Parity), uint8(4), uint16(1), false)
	f.Add(make([]byte, wire.ReportSize), uint64(0), uint8(wire.Feedback), uint8(0), uint16(0), false)
	f.Add(make([]byte, 100), uint64(0), uint8(0), uint8(0), uint16(0), true)
	f.Fuzz(func(t *testing.T, payload []byte, number uint64, kind, count uint8, index uint16, raw bool) {
		box := secret(1).Down()
		if raw {
			if _, _, err := box.Open(bytes.Clone(payload)); err == nil {
				t.Fatal("bytes that nobody sealed were opened")
			}
			_, _, _ = wire.ParseBlock(payload)
			_, _ = wire.ParseReport(payload)
			return
		}
		h := wire.Header{Number: number, Kind: wire.Kind(kind), Count: count, Index: index}
		opened, got, err := box.Open(box.Seal(nil, h, payload))
		if err == nil && (opened != h || !bytes.Equal(got, payload)) {
			t.Fatalf("sealed %+v, opened %+v", h, opened)
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	box, payload := secret(1).Down(), make([]byte, wire.MaxPayload)
	to := make([]byte, 0, wire.MaxDatagram)
	b.SetBytes(int64(len(payload)))
	for i := range b.N {
		to = box.Seal(to[:0], wire.Header{Number: uint64(i), Kind: wire.Data}, payload)
	}
}
