package datagram_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/datagram"
	wire "github.com/groupcast/groupcast/internal/wire/datagram"
)

var secret = wire.Secret{1, 2, 3}

func listen(t *testing.T) *datagram.Socket {
	t.Helper()
	socket, err := datagram.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return socket
}

func addressOf(socket *datagram.Socket) netip.AddrPort {
	return socket.Addr().(*net.UDPAddr).AddrPort()
}

// A child's punch tells the parent where it is, and what the parent sends then comes.
func TestPunchedAndSent(t *testing.T) {
	parent, child := listen(t), listen(t)
	out, in := datagram.NewOut(secret, 10*time.Millisecond, 0), datagram.NewIn(secret)
	batch := datagram.NewBatch(parent)
	const count = 5
	go parent.Receive(func(whole []byte, from netip.AddrPort) {
		out.Punched(whole, from, addressOf(child).Addr())
		for i := range count {
			out.Add(batch, wire.Header{Kind: wire.Data, Sequence: uint64(i)}, fmt.Appendf(nil, "datagram %d", i), time.Now())
		}
	}, batch.Flush)
	if err := child.Send(in.Punch(nil), addressOf(parent)); err != nil {
		t.Fatal(err)
	}
	got := make([]string, count)
	n := 0
	err := child.Receive(func(whole []byte, _ netip.AddrPort) {
		copied := append([]byte(nil), whole...)
		h, payload, err := in.Open(whole, time.Now())
		if err != nil {
			t.Error(err)
			return
		}
		got[h.Sequence] = string(payload)
		if _, _, err := in.Open(copied, time.Now()); !errors.Is(err, datagram.ErrRepeated) {
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
	report := in.Report(time.Now())
	if report.Received != count || report.Lost != 0 {
		t.Errorf("the child reports %+v", report)
	}
	out.Report(report, time.Now())
	if use := out.Use(); use.Sent != count || use.Held != 0 || use.Bytes != count*10 {
		t.Errorf("the parent counts %+v", use)
	}
}

// What says where a child is may not send to anybody else.
func TestPunchesOfOthersAreIgnored(t *testing.T) {
	child := listen(t)
	here, there := addressOf(child), netip.MustParseAddrPort("127.0.0.2:9")
	for name, c := range map[string]struct {
		punch []byte
		from  netip.AddrPort
	}{
		"of another link":   {datagram.NewIn(wire.Secret{9}).Punch(nil), here},
		"from another host": {datagram.NewIn(secret).Punch(nil), there},
	} {
		out := datagram.NewOut(secret, time.Millisecond, 0)
		out.Punched(c.punch, c.from, here.Addr())
		out.Add(datagram.NewBatch(child), wire.Header{Kind: wire.Data}, nil, time.Now())
		if use := out.Use(); use.Sent != 0 || use.Held != 1 {
			t.Errorf("%s: %+v", name, use)
		}
	}
	// An earlier punch that comes late does not bring an earlier port back.
	out, in := datagram.NewOut(secret, time.Millisecond, 0), datagram.NewIn(secret)
	first, second := in.Punch(nil), in.Punch(nil)
	out.Punched(second, here, here.Addr())
	out.Punched(first, netip.AddrPortFrom(here.Addr(), 9), here.Addr())
	batch := datagram.NewBatch(listen(t))
	out.Add(batch, wire.Header{Kind: wire.Data}, nil, time.Now())
	batch.Flush()
	came := false
	err := child.Receive(func([]byte, netip.AddrPort) { came = true; child.Close() }, func() {})
	if err != nil || !came {
		t.Errorf("came: %v, %v", came, err)
	}
}

// More than the pace allows is held, not queued.
func TestPaceHolds(t *testing.T) {
	parent := listen(t)
	out := datagram.NewOut(secret, 100*time.Millisecond, 10_000)
	out.SendTo(addressOf(parent))
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

// What one core duplicates to four children.
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
		out := datagram.NewOut(wire.Secret{byte(i)}, time.Nanosecond, 0)
		out.SendTo(addressOf(sink))
		outs = append(outs, out)
	}
	batch, payload := datagram.NewBatch(socket), make([]byte, wire.MaxPayload)
	b.SetBytes(children * int64(len(payload)))
	b.ResetTimer()
	now := time.Now()
	for i := range b.N {
		now = now.Add(time.Millisecond)
		if i%100 == 1 { // children that get everything: the pace is no limit
			for _, out := range outs {
				out.Report(wire.Report{Received: out.Use().Sent, BytesPerSecond: 1 << 40}, now)
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
