package sdk

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/datagram"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	wiredatagram "github.com/groupcast/groupcast/internal/wire/datagram"
)

// What the sender's links carried has parity in it, as what agents' links carried has, and is told of the agent that is fed: how far the
// stream is says neither.
func TestSenderTellsWhatItsLinksCarried(t *testing.T) {
	socket, err := datagram.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	s := &datagramSender{out: new(Outgoing), linked: make(chan struct{}), encoder: datagram.NewEncoder(datagram.Code{Data: 2, Parity: 2}, time.Minute)}
	link := func(agent string) {
		out := datagram.NewOutTo(wiredatagram.Secret{1}, time.Millisecond, 0, socket.Addr())
		s.attach(agent, out, datagram.NewBatch(socket))
	}
	send := func(datagrams int) {
		for range datagrams {
			payload := make([]byte, 100)
			h := wiredatagram.Header{Kind: wiredatagram.Data, Sequence: s.next}
			s.next++
			s.bytes += uint64(len(payload))
			s.add(h, payload)
			s.addParity(s.encoder.Add(h.Sequence, h.Sent, payload, time.Now()))
		}
	}
	want := func(agent string, sent, most uint64) {
		t.Helper()
		report := new(groupv1.DeliveryReport)
		s.standing(report)
		if fed := report.GetFed(); fed.GetName() != agent || fed.GetSentBytes() < sent || fed.GetSentBytes() > most {
			t.Errorf("it tells %v, want %d to %d bytes to %s", report, sent, most, agent)
		}
	}
	want("", 0, 0)
	link("a")
	send(2)
	want("a", 400, 450)
	s.detach()
	link("b")
	want("b", 0, 0)
	send(4)
	want("b", 800, 900)
	s.detach()
	link("a")
	send(2)
	want("a", 800, 900)
}
