package sdk

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/datagram"
	"github.com/groupcast/groupcast/internal/datagram"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/udp"
	"github.com/groupcast/groupcast/internal/uplink"
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
	s := &datagramSender{out: new(Outgoing), linked: make(chan struct{}), before: make(map[string]datagram.Use), encoder: datagram.NewEncoder(datagram.Code{Data: 2, Parity: 2}, time.Minute)}
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
			for _, shard := range s.encoder.Add(h.Sequence, h.Sent, payload, time.Now()) {
				s.add(shard.Header(), shard.Block)
			}
		}
	}
	want := func(agent string, sent, most uint64) {
		t.Helper()
		report := new(groupv1.DeliveryReport)
		s.standing(report)
		if got, want := report.GetFed().GetDatagrams().GetSent(), sent/100; got != want {
			t.Errorf("it tells of %d datagrams to %s, want %d", got, agent, want)
		}
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
	s.add(wiredatagram.Header{Kind: wiredatagram.Data, Sequence: s.next}, make([]byte, 100)) // while there is none
	report := new(groupv1.DeliveryReport)
	if s.standing(report); report.GetFed().GetDatagrams().GetHeld() != 1 {
		t.Errorf("it tells of %d datagrams that were held, want the one", report.GetFed().GetDatagrams().GetHeld())
	}
	link("a")
	send(2)
	want("a", 800, 900)
}

// pacedSender is a sender whose agent gets everything.
type pacedSender struct {
	*datagramSender
	t      *testing.T
	socket *udp.Socket
}

func newPacedSender(t *testing.T, fresh time.Duration, code datagram.Code) *pacedSender {
	t.Helper()
	socket, err := datagram.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	s := &datagramSender{
		out:    &Outgoing{session: &Session{client: &Client{uplink: new(uplink.Uplink)}}},
		linked: make(chan struct{}), before: make(map[string]datagram.Use), given: make(chan []byte), fresh: fresh,
	}
	if !code.IsNone() {
		s.encoder = datagram.NewEncoder(code, paritySpan(fresh))
	}
	return &pacedSender{s, t, socket}
}

// link gives the sender a link with a round trip to an agent, which reports that everything came until ctx is done.
func (s *pacedSender) link(ctx context.Context, agent string, roundTrip time.Duration, most uint64) {
	begun, secret := time.Now(), wiredatagram.Secret{1}
	out := datagram.NewOutTo(secret, roundTrip, most, s.socket.Addr())
	s.attach(agent, out, datagram.NewBatch(s.socket))
	go func() {
		box, before, number := secret.Up(), datagram.Use{}, uint64(0)
		for pause.For(ctx, algo.ReportInterval) {
			use := out.Use()
			report := wiredatagram.Report{
				Received: use.Sent, Departure: uint64((time.Since(begun) - roundTrip).Microseconds()),
				BytesPerSecond: uint64(float64(use.Bytes-before.Bytes) / algo.ReportInterval.Seconds()),
			}
			out.Take(box.Seal(nil, wiredatagram.Header{Number: number, Kind: wiredatagram.Feedback}, report.Append(nil)), s.socket.Addr(), time.Now())
			before = use
			number++
		}
	}()
}

// All parity leaves, whatever the pace: where a source gives all that may be sent, and where a window has more of it than may leave at once.
func TestParityLeavesAtThePace(t *testing.T) {
	for name, tt := range map[string]struct {
		code     datagram.Code
		most     uint64
		interval time.Duration
	}{
		"a fast source, slowly":            {datagram.Code{Data: 10, Parity: 2}, 200_000, 0},
		"a fast source, fast":              {datagram.Code{Data: 10, Parity: 2}, 2_000_000, 0},
		"a live source, with large parity": {datagram.Code{Data: 20, Parity: 10}, 0, 20 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			s := newPacedSender(t, time.Second, tt.code)
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s.link(ctx, "a", 20*time.Millisecond, tt.most)
				const count = 600
				for range count {
					pause.For(ctx, tt.interval)
					s.emit(ctx, make([]byte, 1000))
				}
				want := uint64(count + count/tt.code.Data*tt.code.Parity)
				if use := s.used(); use.Held > 0 || use.Sent != want {
					t.Errorf("%d left and %d were held: want all of %d to leave", use.Sent, use.Held, want)
				}
			})
		})
	}
}

// A source that gives as much as is taken, as a file, is read no faster while nothing can be sent than while something could. Where
// there is no agent, with a bound of age what is read then is lost, after the first has waited for that long, and without one nothing is. While
// the breaker is open, the stream goes on, and is lost.
func TestNoWayReadsNoFaster(t *testing.T) {
	const rate, without = 200_000, 10 * time.Second
	gone := func(s *pacedSender) (comes func(context.Context)) {
		s.detach()
		return func(ctx context.Context) { s.link(ctx, "b", 20*time.Millisecond, rate) }
	}
	tripped := func(s *pacedSender) (comes func(context.Context)) {
		for !s.datagramSender.link.Use().Open { // nothing of what is sent comes
			for range 10 {
				s.datagramSender.link.Add(s.batch, wiredatagram.Header{Kind: wiredatagram.Data}, nil, time.Now())
			}
			time.Sleep(time.Second)
			s.datagramSender.link.Check(time.Now())
		}
		return func(context.Context) {}
	}
	for name, tt := range map[string]struct {
		ends  func(*pacedSender) (comes func(context.Context))
		fresh time.Duration
		waits bool
	}{
		"no agent, no bound":        {gone, 0, true},
		"no agent, a bound":         {gone, 200 * time.Millisecond, false},
		"an open breaker, no bound": {tripped, 0, false},
		"an open breaker, a bound":  {tripped, 200 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newPacedSender(t, tt.fresh, datagram.Code{})
			synctest.Test(t, func(t *testing.T) {
				linked, cancel := context.WithCancel(t.Context())
				s.link(linked, "a", 20*time.Millisecond, rate)
				for range 100 {
					s.emit(t.Context(), make([]byte, 1000))
				}
				cancel()
				comes := tt.ends(s)
				held, begun, read := s.used().Held, time.Now(), 0
				time.AfterFunc(without, func() { comes(t.Context()) })
				for time.Since(begun) < without && read < 100_000 {
					s.emit(t.Context(), make([]byte, 1000))
					read++
				}
				lost := s.used().Held - held
				switch most := int(rate * without.Seconds() / 1000); {
				case tt.waits && (lost > 0 || read > 1):
					t.Errorf("%d were read and %d lost: want all of them to wait", read, lost)
				case read > most:
					t.Errorf("%d were read: want %d at most", read, most)
				case !tt.waits && read < most/2:
					t.Errorf("%d were read: a live source would fall behind", read)
				}
			})
		})
	}
}

// An agent that comes soon after another went costs nothing: what was read by then waits as long as it is fresh.
func TestNextAgentIsWaitedFor(t *testing.T) {
	s := newPacedSender(t, time.Second, datagram.Code{})
	synctest.Test(t, func(t *testing.T) {
		s.link(t.Context(), "a", 20*time.Millisecond, 200_000)
		s.emit(t.Context(), make([]byte, 1000))
		s.detach()
		time.AfterFunc(500*time.Millisecond, func() { s.link(t.Context(), "b", 20*time.Millisecond, 200_000) })
		for range 20 {
			s.emit(t.Context(), make([]byte, 1000))
		}
		if use := s.used(); use.Sent != 21 || use.Held != 0 {
			t.Errorf("%d left and %d were held", use.Sent, use.Held)
		}
	})
}

// Where one datagram takes longer than it is fresh at the rate that was asked for, what cannot be sent is read at that rate, too.
func TestWaitLongerThanFresh(t *testing.T) {
	const rate = 5000
	s := newPacedSender(t, 200*time.Millisecond, datagram.Code{})
	synctest.Test(t, func(t *testing.T) {
		s.link(t.Context(), "a", 20*time.Millisecond, rate)
		begun, read := time.Now(), 0
		for time.Since(begun) < 20*time.Second && read < 10_000 {
			s.emit(t.Context(), make([]byte, wiredatagram.MaxPayload))
			read++
		}
		use := s.used()
		t.Logf("%d were read, %d left", read, use.Sent)
		if read > 2*20*rate/wiredatagram.MaxPayload || use.Sent < 20*rate/wiredatagram.MaxPayload/2 {
			t.Errorf("%d were read, of which %d left", read, use.Sent)
		}
	})
}
