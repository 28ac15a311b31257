package datagram_test

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/datagram"
	"github.com/groupcast/groupcast/internal/udp"
	wire "github.com/groupcast/groupcast/internal/wire/datagram"
)

var secret = wire.Secret{1, 2, 3}

func listen(t *testing.T) *udp.Socket {
	t.Helper()
	socket, err := datagram.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return socket
}

func addressOf(socket *udp.Socket) netip.AddrPort {
	return socket.Addr()
}

// A child's report tells the parent where the child is, and what the parent then sends arrives.
func TestReportedAndSent(t *testing.T) {
	parent, child := listen(t), listen(t)
	out := datagram.NewOut(secret, 10*time.Millisecond, datagram.Code{}, addressOf(child).Addr())
	in := datagram.NewIn(secret, addressOf(parent))
	batch := datagram.NewBatch(parent)
	const count = 5
	var sending sync.WaitGroup
	sending.Go(func() {
		_ = parent.Receive(func(whole []byte, from netip.AddrPort) {
			out.Take(whole, from, time.Now())
			for i := range count {
				out.Add(batch, wire.Header{Kind: wire.Data, Sequence: uint64(i)}, fmt.Appendf(nil, "datagram %d", i), time.Now())
			}
		}, batch.Flush)
	})
	if err := child.Send(report(t, in), addressOf(parent)); err != nil {
		t.Fatal(err)
	}
	got := make([]string, count)
	n := 0
	err := child.Receive(func(whole []byte, from netip.AddrPort) {
		copied := append([]byte(nil), whole...)
		h, payload, err := in.Open(whole, from, time.Now())
		if err != nil {
			t.Error(err)
			return
		}
		got[h.Sequence] = string(payload)
		if _, _, err := in.Open(copied, from, time.Now()); !errors.Is(err, datagram.ErrRepeated) {
			t.Errorf("the same again: %v", err)
		}
		if n++; n == count {
			child.Close()
		}
	}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	for i, payload := range got {
		if payload != fmt.Sprintf("datagram %d", i) {
			t.Errorf("datagram %d is %q", i, payload)
		}
	}
	parent.Close()
	sending.Wait() // what has come is counted only then
	out.Take(report(t, in), addressOf(child), time.Now())
	if use := out.Use(); use.Sent != count || use.Held != 0 || use.Bytes != count*10 {
		t.Errorf("the parent counts %+v", use)
	}
}

func report(t *testing.T, in *datagram.In) []byte {
	t.Helper()
	whole, _, ok := in.Report(time.Now())
	if !ok {
		t.Fatal("the child does not know where its parent is")
	}
	return whole
}

// A report that says where a child is cannot have datagrams sent to anybody else.
func TestReportsOfOthersAreIgnored(t *testing.T) {
	child, parent := listen(t), netip.MustParseAddrPort("127.0.0.1:9")
	here, there := addressOf(child), netip.MustParseAddrPort("127.0.0.2:9")
	for name, c := range map[string]struct {
		secret wire.Secret
		from   netip.AddrPort
	}{
		"of another link":   {wire.Secret{9}, here},
		"from another host": {secret, there},
	} {
		out := datagram.NewOut(secret, time.Millisecond, datagram.Code{}, here.Addr())
		out.Take(report(t, datagram.NewIn(c.secret, parent)), c.from, time.Now())
		out.Add(datagram.NewBatch(child), wire.Header{Kind: wire.Data}, nil, time.Now())
		if use := out.Use(); use.Sent != 0 || use.Held != 1 || out.IsReady() {
			t.Errorf("%s: %+v", name, use)
		}
	}
	// An earlier report that comes late does not bring back an earlier port.
	out, in := datagram.NewOut(secret, time.Millisecond, datagram.Code{}, here.Addr()), datagram.NewIn(secret, parent)
	first, second := report(t, in), report(t, in)
	out.Take(second, here, time.Now())
	out.Take(first, netip.AddrPortFrom(here.Addr(), 9), time.Now())
	batch := datagram.NewBatch(listen(t))
	out.Add(batch, wire.Header{Kind: wire.Data}, nil, time.Now())
	batch.Flush()
	came := false
	err := child.Receive(func([]byte, netip.AddrPort) { came = true; child.Close() }, func() {})
	if err != nil || !came {
		t.Errorf("came: %v, %v", came, err)
	}
}

// A child that did not dial learns its parent's address from what comes.
func TestParentIsWhereItSendsFrom(t *testing.T) {
	in := datagram.NewIn(secret, netip.AddrPort{})
	if _, _, ok := in.Report(time.Now()); ok {
		t.Error("it knows before anything came")
	}
	whole := secret.Down().Seal(nil, wire.Header{Kind: wire.Data}, nil)
	parent := netip.MustParseAddrPort("127.0.0.1:9")
	if _, _, err := in.Open(whole, parent, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, to, ok := in.Report(time.Now()); !ok || to != parent {
		t.Errorf("it reports to %v", to)
	}
}

// A child that did not dial follows its parent to another port, as that of a network that translates addresses: what overtook it, and what
// others send again, changes nothing. A child that dialled stays with whom it dialled.
func TestParentMoves(t *testing.T) {
	first, second := netip.MustParseAddrPort("127.0.0.1:9"), netip.MustParseAddrPort("127.0.0.1:10")
	for name, tt := range map[string]struct{ dialled, want netip.AddrPort }{
		"that opened the link": {netip.AddrPort{}, second},
		"that was dialled":     {first, first},
	} {
		in, box := datagram.NewIn(secret, tt.dialled), secret.Down()
		open := func(number uint64, from netip.AddrPort) error {
			_, _, err := in.Open(box.Seal(nil, wire.Header{Number: number, Kind: wire.Data}, nil), from, time.Now())
			return err
		}
		for _, one := range []struct {
			number uint64
			from   netip.AddrPort
			want   error
		}{{0, first, nil}, {1, first, nil}, {3, second, nil}, {3, first, datagram.ErrRepeated}, {2, first, nil}} {
			if err := open(one.number, one.from); !errors.Is(err, one.want) {
				t.Errorf("%d: %v", one.number, err)
			}
		}
		if _, to, ok := in.Report(time.Now()); !ok || to != tt.want {
			t.Errorf("to a parent %s it reports at %v, want %v", name, to, tt.want)
		}
	}
}

// What exceeds the pace is dropped, not queued.
func TestPaceHolds(t *testing.T) {
	parent := listen(t)
	out := datagram.NewOutTo(secret, 100*time.Millisecond, 10_000, addressOf(parent))
	batch := datagram.NewBatch(parent)
	for range 1000 {
		out.Add(batch, wire.Header{Kind: wire.Data}, make([]byte, 1000), time.Now())
		if batch.IsFull() {
			batch.Flush()
		}
	}
	batch.Flush()
	use := out.Use()
	if use.Sent+use.Held != 1000 || use.Sent > 100 || use.Sent == 0 {
		t.Errorf("of 1000: %+v", use)
	}
}

// What a link is told to have sent never becomes less: metrics count what came since they last looked. What the socket did not take was held.
func TestUseOnlyGrows(t *testing.T) {
	parent, child := listen(t), listen(t)
	out, batch := datagram.NewOutTo(secret, time.Millisecond, 0, addressOf(child)), datagram.NewBatch(parent)
	add := func(count int) {
		for range count {
			out.Add(batch, wire.Header{Kind: wire.Data}, []byte("datagram"), time.Now())
		}
	}
	add(2)
	batch.Flush()
	parent.Close() // it takes no more
	before := out.Use()
	for range 2 {
		add(3)
		between := out.Use()
		batch.Flush()
		after := out.Use()
		if between.Sent < before.Sent || after.Sent < between.Sent || after.Bytes < between.Bytes || after.Held < between.Held {
			t.Errorf("from %+v by %+v to %+v", before, between, after)
		}
		before = after
	}
	if before.Sent != 2 || before.Bytes != 2*8 || before.Held != 6 {
		t.Errorf("at the end: %+v", before)
	}
}

// BenchmarkDuplicate measures what one core duplicates to four children.
func BenchmarkDuplicate(b *testing.B) {
	socket, err := datagram.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer socket.Close()
	sink, err := datagram.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer sink.Close()
	const children = 4
	var outs []*datagram.Out
	for i := range children {
		outs = append(outs, datagram.NewOutTo(wire.Secret{byte(i)}, time.Nanosecond, 0, addressOf(sink)))
	}
	batch, payload := datagram.NewBatch(socket), make([]byte, wire.MaxPayload)
	b.SetBytes(children * int64(len(payload)))
	b.ResetTimer()
	now := time.Now()
	for i := range b.N {
		now = now.Add(time.Millisecond)
		if i%100 == 1 { // the children get everything: the pace is no limit
			for child, out := range outs {
				told := wire.Report{Received: out.Use().Sent, BytesPerSecond: 1 << 40}.Append(nil)
				up := wire.Secret{byte(child)}.Up()
				out.Take(up.Seal(nil, wire.Header{Number: uint64(i), Kind: wire.Feedback}, told), addressOf(sink), now)
			}
		}
		for _, out := range outs {
			if batch.IsFull() {
				batch.Flush()
			}
			out.Add(batch, wire.Header{Kind: wire.Data}, payload, now)
		}
	}
	batch.Flush()
	var held uint64
	for _, out := range outs {
		held += out.Use().Held
	}
	b.ReportMetric(float64(held)/float64(b.N*children), "held/op")
}
