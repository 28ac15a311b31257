package datagram_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	algo "github.com/groupcast/groupcast/internal/algo/datagram"
	"github.com/groupcast/groupcast/internal/datagram"
	wire "github.com/groupcast/groupcast/internal/wire/datagram"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var code = datagram.Code{Data: 10, Parity: 3}

// sent is a datagram on its way, data or parity.
type sent struct {
	wire.Header
	payload []byte
}

// stream returns what a sender sends for so many datagrams, with their parity.
func stream(code datagram.Code, first uint64, payloads [][]byte) (all []sent) {
	encoder := datagram.NewEncoder(code, time.Second)
	add := func(shards []datagram.Shard) {
		for _, shard := range shards {
			all = append(all, sent{shard.Header(), shard.Block})
		}
	}
	for i, payload := range payloads {
		sequence := first + uint64(i)
		all = append(all, sent{wire.Header{Kind: wire.Data, Sequence: sequence, Sent: 1000 + sequence}, payload})
		add(encoder.Add(sequence, 1000+sequence, payload, time.Unix(0, 0)))
	}
	add(encoder.Flush())
	return all
}

// tally holds what a repair handed on, by what identifies it.
type tally map[string][]byte

func (t tally) note(tt *rapid.T, h wire.Header, payload []byte) {
	key := fmt.Sprintf("kind %d, %d of %d from %d, sent %d", h.Kind, h.Index, h.Count, h.Sequence, h.Sent)
	if _, twice := t[key]; twice {
		tt.Fatalf("%s is handed on twice", key)
	}
	t[key] = bytes.Clone(payload)
}

// pass passes datagrams on as an agent does: a datagram that was recovered is not taken again if it comes after all.
func pass(t *rapid.T, r *datagram.Repair, all []sent) tally {
	passed := make(tally)
	var seen algo.Seen
	for _, one := range all {
		var found []datagram.Found
		switch {
		case one.Kind == wire.Parity:
			found = r.Parity(one.Header, one.payload)
		case seen.Note(one.Sequence):
			passed.note(t, one.Header, one.payload)
			found = r.Data(one.Sequence, one.Sent, one.payload)
		}
		for _, f := range found {
			passed.note(t, f.Header, f.Payload)
			if f.Kind == wire.Data {
				seen.Note(f.Sequence)
			}
		}
	}
	return passed
}

// Any part of a window as large as its number of datagrams brings back all of it, including its
// parity; a smaller part brings back nothing.
func TestAnySoManyAreEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(1, code.Data).Draw(t, "count")
		var payloads [][]byte
		for range count {
			payloads = append(payloads, rapid.SliceOfN(rapid.Byte(), 0, wire.MaxPayload).Draw(t, "payload"))
		}
		all := stream(code, rapid.Uint64Range(0, 1<<40).Draw(t, "first"), payloads)
		lost := rapid.IntRange(0, len(all)).Draw(t, "lost")
		came := rapid.Permutation(all).Draw(t, "order")[lost:]
		want := make(tally)
		parity := 0
		for _, one := range came {
			want.note(t, one.Header, one.payload)
			if one.Kind == wire.Parity {
				parity++
			}
		}
		if lost <= code.Parity && parity > 0 {
			clear(want)
			for _, one := range all {
				want.note(t, one.Header, one.payload)
			}
		}
		got := pass(t, datagram.NewRepair(code), came)
		if len(got) != len(want) {
			t.Fatalf("%d of %d came and %d are handed on: want %d", len(came), len(all), len(got), len(want))
		}
		for key, payload := range want {
			if !bytes.Equal(got[key], payload) {
				t.Fatalf("%s is another", key)
			}
		}
	})
}

// In a stream of many windows, some datagrams of each are lost, or late by some windows.
func TestManyWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const windows = 30
		payloads := make([][]byte, windows*code.Data)
		for i := range payloads {
			payloads[i] = fmt.Appendf(nil, "payload %d", i)
		}
		all := stream(code, 0, payloads)
		var came []sent
		lost := make(map[uint64]int) // by window
		for _, one := range all {
			window := one.Sequence / uint64(code.Data)
			if lost[window] < code.Parity && rapid.IntRange(0, 3).Draw(t, "fate") == 0 {
				lost[window]++
				continue
			}
			at := max(0, len(came)-rapid.IntRange(0, 2*code.Data).Draw(t, "late"))
			came = append(came[:at], append([]sent{one}, came[at:]...)...)
		}
		got := pass(t, datagram.NewRepair(code), came)
		for window, n := range lost {
			if n == code.Parity {
				continue // all parity of the window may have been lost
			}
			for i := range code.Data {
				sequence := window*uint64(code.Data) + uint64(i)
				key := fmt.Sprintf("kind 1, 0 of 0 from %d, sent %d", sequence, 1000+sequence)
				if string(got[key]) != fmt.Sprintf("payload %d", sequence) {
					t.Fatalf("with %d lost of window %d, datagram %d is %q", n, window, sequence, got[key])
				}
			}
		}
	})
}

func TestWindowEndsInTime(t *testing.T) {
	now := time.Unix(100, 0)
	e := datagram.NewEncoder(code, 50*time.Millisecond)
	if !e.Due().IsZero() || e.Flush() != nil {
		t.Error("an empty window is due")
	}
	e.Add(5, 0, []byte("a"), now)
	e.Add(6, 0, []byte("b"), now.Add(time.Millisecond))
	if want := now.Add(50 * time.Millisecond); !e.Due().Equal(want) {
		t.Errorf("due at %v: want %v", e.Due(), want)
	}
	shards := e.Flush()
	if len(shards) != 3 || shards[2].First != 5 || shards[2].Count != 2 || shards[2].Index != 2 {
		t.Errorf("got %+v", shards)
	}
	if !e.Due().IsZero() {
		t.Error("the window did not end")
	}
}

// Parity that contradicts other parity does no harm.
func TestNonsenseIsNotSolved(t *testing.T) {
	r := datagram.NewRepair(code)
	shard := func(count uint8, index uint16, length int) []datagram.Found {
		return r.Parity(wire.Header{Kind: wire.Parity, Sequence: 10, Count: count, Index: index}, make([]byte, length))
	}
	if n := len(shard(10, 0, 100)); n != 1 {
		t.Errorf("%d are handed on: want the shard alone", n)
	}
	for name, found := range map[string][]datagram.Found{
		"another count": shard(9, 1, 100), "another length": shard(10, 1, 99), "again": shard(10, 0, 100), "no such index": shard(10, 3, 100),
	} {
		if found != nil {
			t.Errorf("%s: %d are handed on", name, len(found))
		}
	}
	// Datagrams may be longer than those of which the parity was made.
	for sequence := uint64(10); sequence < 20; sequence++ {
		r.Data(sequence, 0, make([]byte, 1000))
	}
}

func BenchmarkEncode(b *testing.B) {
	e := datagram.NewEncoder(datagram.Code{Data: 10, Parity: 2}, time.Second)
	payload := make([]byte, wire.MaxPayload)
	b.SetBytes(int64(len(payload)))
	for i := range b.N {
		e.Add(uint64(i), 0, payload, time.Time{})
	}
}

// losing repairs windows of which each lost others of its datagrams, as many as its parity allows.
type losing struct {
	code    datagram.Code
	repair  *datagram.Repair
	encoder *datagram.Encoder
	random  *rand.Rand
	payload []byte
	first   uint64
}

func newLosing(code datagram.Code, size int) *losing {
	return &losing{
		code: code, repair: datagram.NewRepair(code), encoder: datagram.NewEncoder(code, time.Hour), random: rand.New(rand.NewPCG(1, 2)),
		payload: make([]byte, size),
	}
}

// window repairs one more window, and returns how many datagrams were recovered.
func (l *losing) window() (recovered int) {
	note := func(found []datagram.Found) {
		for _, one := range found {
			if one.Kind == wire.Data {
				recovered++
			}
		}
	}
	lost := make(map[int]bool)
	for _, i := range l.random.Perm(l.code.Data)[:l.code.Parity] {
		lost[i] = true
	}
	var shards []datagram.Shard
	for i := range l.code.Data {
		sequence := l.first + uint64(i)
		if shards = l.encoder.Add(sequence, sequence, l.payload, time.Unix(0, 0)); !lost[i] {
			note(l.repair.Data(sequence, sequence, l.payload))
		}
	}
	for _, shard := range shards {
		note(l.repair.Parity(shard.Header(), shard.Block))
	}
	l.first += uint64(l.code.Data)
	return recovered
}

// What was computed for one pattern of losses is not kept: with large parity hardly one comes twice, and a stream may last for months.
func TestRepairKeepsNoPatterns(t *testing.T) {
	l := newLosing(datagram.Code{Data: 40, Parity: 20}, 10)
	repair := func(windows int) (heap int64) {
		for range windows {
			if got := l.window(); got != l.code.Parity {
				t.Fatalf("%d are recovered of %d", got, l.code.Parity)
			}
		}
		runtime.GC()
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		runtime.KeepAlive(l)
		return int64(memory.HeapAlloc)
	}
	before := repair(50)
	if grew := repair(2000) - before; grew > 1<<20 {
		t.Errorf("2000 windows leave %d bytes behind", grew)
	}
}

// BenchmarkRepair measures a window whose losses nobody has had before.
func BenchmarkRepair(b *testing.B) {
	for _, code := range []datagram.Code{{Data: 10, Parity: 2}, {Data: 40, Parity: 20}, {Data: 128, Parity: 128}} {
		b.Run(fmt.Sprintf("%d+%d", code.Data, code.Parity), func(b *testing.B) {
			l := newLosing(code, wire.MaxPayload)
			for b.Loop() {
				l.window()
			}
		})
	}
}
