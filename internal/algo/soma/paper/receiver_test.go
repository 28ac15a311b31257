package paper_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/algo/soma/model"
	"github.com/groupcast/groupcast/internal/algo/soma/paper"
	wire "github.com/groupcast/groupcast/internal/wire/soma/paper"
)

// ear is a client and all that it did, one line each.
type ear struct {
	*testing.T
	*paper.Receiver
	now  time.Time
	done []string
}

// drawn is a random source that draws what it is told.
type drawn time.Duration

func (d drawn) Int64N(int64) int64 { return int64(d) }

func listen(t *testing.T, o paper.ReceiverOptions) *ear {
	o.LAN = subnet(0)
	return &ear{T: t, Receiver: paper.NewReceiver(o, drawn(100*us)), now: time.Unix(1_000_000, 0)}
}

func (e *ear) step(event paper.Event) {
	for _, action := range e.Step(e.now, event) {
		switch action := action.(type) {
		case paper.Store:
			e.note("store %d at %d", action.SN, action.Offset)
		case paper.Mark:
			e.note("mark %d-%d", action.First, action.Last)
		case paper.Multicast:
			e.note("%v %d", action.Type, action.SN)
		case paper.Unicast:
			e.note("%v %d", action.Type, action.SN)
		case paper.Finished:
			e.note("%s %d", action.Reason, action.Length)
		}
	}
}

func (e *ear) note(format string, values ...any) {
	e.done = append(e.done, fmt.Sprintf(format, values...))
}

func (e *ear) hear(from netip.AddrPort, kind wire.Type, sn, lwsn uint32, payload int) {
	e.step(paper.Packet{From: from, Packet: wire.Packet{SN: sn, Type: kind, LWSN: lwsn, Payload: make([]byte, payload)}})
}

func (e *ear) data(sn, lwsn uint32, payload int) {
	e.hear(serverAddress, wire.Data, sn, lwsn, payload)
}

// wait lets time pass, with a step at each deadline.
func (e *ear) wait(d time.Duration) {
	end := e.now.Add(d)
	for due := e.Receiver.Deadline(); !due.IsZero() && !due.After(end); due = e.Receiver.Deadline() {
		e.now = due
		e.step(nil)
	}
	e.now = end
}

// want is what was done since the last want.
func (e *ear) want(lines ...string) {
	e.Helper()
	if !slices.Equal(e.done, lines) {
		e.Errorf("did\n\t%s\nwant\n\t%s", strings.Join(e.done, "\n\t"), strings.Join(lines, "\n\t"))
	}
	e.done = nil
}

// "If the sequence number is the expected one, the client stores the payload and updates the
// sequence number." (§III-C)
func TestExpectedIsStored(t *testing.T) {
	e := listen(t, correcting)
	e.data(1, 3, 512)
	e.data(2, 3, 512)
	e.want("store 1 at 0", "store 2 at 512")
}

// "If the sequence number is greater, the client detects packet losses and sends a NACK with the
// sequence number of the received data packet. Simultaneously, it finds out the number of lost
// packets and it stores an error mark for each one. Finally, it also stores the data" (§III-C)
func TestGreaterIsALoss(t *testing.T) {
	e := listen(t, correcting)
	e.data(1, 9, 512)
	e.data(5, 9, 512)
	e.want("store 1 at 0", "NACK 5", "mark 2-4", "store 5 at 2048")
	if e.Missing() != 3 {
		t.Errorf("%d missing", e.Missing())
	}
}

// "If the sequence number is smaller, the data packet is discarded." (§III-C) Even the last of
// its window, and even if it was missing: C36's duplicates have no effect.
func TestSmallerIsDiscarded(t *testing.T) {
	e := listen(t, correcting)
	e.data(1, 9, 512)
	e.data(5, 9, 512)
	e.want("store 1 at 0", "NACK 5", "mark 2-4", "store 5 at 2048")
	e.data(5, 9, 512)
	e.data(3, 3, 512)
	e.data(1, 1, 512)
	e.wait(ms)
	e.want()
}

// "if the SN matches with the LWSN value, the client competes for sending an ACK" (§III-C): "If the
// ARTP expires and the ACK has not been received, the client generates and multicasts its own ACK." (§III-D)
func TestLastOfAWindowIsAcknowledged(t *testing.T) {
	e := listen(t, correcting)
	e.data(1, 1, 512)
	e.want("store 1 at 0")
	e.wait(99 * us)
	e.want()
	e.wait(us)
	e.want("ACK 1")
	e.wait(ms)
	e.want()
}

// A window of which only the last came is acknowledged all the same.
func TestWindowWithLossIsAcknowledged(t *testing.T) {
	e := listen(t, correcting)
	e.data(10, 10, 512)
	e.wait(ms)
	e.want("NACK 10", "mark 1-9", "store 10 at 4608", "ACK 10")
}

// "The rest of clients will receive the ACK but only the clients at the ACK sender side (belonging
// to the same subnetwork) will disable its own ACK transmission." (§III-D)
func TestACKOfTheSameLANMakesOnesOwnNeedless(t *testing.T) {
	neighbour, elsewhere := netip.MustParseAddrPort("10.0.0.77:7431"), netip.MustParseAddrPort("10.0.1.77:7431")
	for _, c := range []struct {
		from netip.AddrPort
		sn   uint32
		want []string
	}{
		{neighbour, 2, nil},
		{elsewhere, 2, []string{"ACK 2"}},
		{neighbour, 1, []string{"ACK 2"}}, // it is not the same ACK
	} {
		e := listen(t, correcting)
		e.data(1, 2, 512)
		e.data(2, 2, 512)
		e.want("store 1 at 0", "store 2 at 512")
		e.hear(c.from, wire.ACK, c.sn, c.sn, 0)
		e.wait(ms)
		e.want(c.want...)
	}
}

// Equation (9): the mean of the least ARTP of n clients is (1 − n/(n+1))·ARTP_max, over 1,000 windows.
func TestMeanARTP(t *testing.T) {
	const windows, seed = 1000, 1
	random := rand.New(rand.NewPCG(seed, seed))
	for _, clients := range []int{1, 2, 4, 8, 16, 32, 64} {
		sum := time.Duration(0)
		for range windows {
			first := time.Hour
			for range clients {
				r := paper.NewReceiver(paper.ReceiverOptions{LAN: subnet(0), ErrorCorrection: true}, random)
				now := time.Unix(1_000_000, 0)
				r.Step(now, paper.Packet{From: serverAddress, Packet: wire.Packet{SN: 1, Type: wire.Data, LWSN: 1, Payload: []byte("x")}})
				first = min(first, r.Deadline().Sub(now))
			}
			sum += first
		}
		mean, want := sum/windows, model.Feedback{Clients: clients, Max: 600 * us}.Mean()
		if ratio := float64(mean) / float64(want); ratio < 0.9 || ratio > 1.1 {
			t.Errorf("%d clients: %v, equation (9) says %v", clients, mean, want)
		}
	}
}

// "Each receiver re-scans its file looking for error marks. If one error mark is found, the client
// delivers a unicast REPAIR-REQUEST packet towards the server." (§III-A)
func TestErrorMarksAreRepaired(t *testing.T) {
	e := listen(t, correcting)
	e.data(1, 5, 512)
	e.data(3, 5, 512)
	e.data(5, 7, 512)
	e.want("store 1 at 0", "NACK 3", "mark 2-2", "store 3 at 1024", "NACK 5", "mark 4-4", "store 5 at 2048")
	e.data(6, 7, 100)
	e.data(7, 7, 0)
	e.want("store 6 at 2560", "REPAIR-REQUEST 2")
	e.hear(serverAddress, wire.RepairResponse, 2, 7, 512)
	e.want("store 2 at 512", "REPAIR-REQUEST 4")
	e.wait(ms)
	e.hear(serverAddress, wire.RepairResponse, 4, 7, 512)
	e.want("ACK 7", "store 4 at 1536", "done 2660")
}

// Requests and answers may be lost, too: ever later, until the server counts as lost.
func TestRequestsAreRepeated(t *testing.T) {
	e := listen(t, paper.ReceiverOptions{ErrorCorrection: true, GivingUp: 2 * time.Second})
	e.data(2, 3, 512)
	e.data(3, 3, 0)
	e.want("NACK 2", "mark 1-1", "store 2 at 512", "REPAIR-REQUEST 1")
	e.wait(750 * ms)
	e.want("ACK 3", "REPAIR-REQUEST 1", "REPAIR-REQUEST 1", "REPAIR-REQUEST 1")
	e.wait(time.Minute)
	e.want("REPAIR-REQUEST 1", "sender_lost 1024")
}

// A client that misses the end asks for it.
func TestLostEndIsAskedFor(t *testing.T) {
	e := listen(t, correcting)
	e.data(1, 3, 512)
	e.want("store 1 at 0")
	e.wait(time.Second)
	e.want("REPAIR-REQUEST 2")
	e.hear(serverAddress, wire.RepairResponse, 2, 3, 10)
	e.want("store 2 at 512", "REPAIR-REQUEST 3")
	e.hear(serverAddress, wire.RepairResponse, 3, 3, 0)
	e.want("done 522")
}

// A member that comes late may hear the short last packet first, and finds out where it belongs.
func TestLastPacketHeardFirst(t *testing.T) {
	e := listen(t, correcting)
	e.data(3, 4, 100)
	e.data(4, 4, 0)
	e.want("NACK 3", "mark 1-2", "store 3 at 200", "REPAIR-REQUEST 1")
	e.hear(serverAddress, wire.RepairResponse, 1, 4, 512)
	e.want("mark 3-3", "store 1 at 0", "REPAIR-REQUEST 2")
	e.hear(serverAddress, wire.RepairResponse, 2, 4, 512)
	e.want("store 2 at 512", "REPAIR-REQUEST 3")
	e.hear(serverAddress, wire.RepairResponse, 3, 4, 100)
	e.want("store 3 at 1024")
	e.wait(ms)
	e.want("ACK 4", "done 1124")
}

// C58, C61: one server's packets are taken; another's on the same group are not. C41: nor are its
// answers.
func TestOneServer(t *testing.T) {
	other := netip.MustParseAddrPort("10.0.0.2:7431")
	e := listen(t, correcting)
	e.data(1, 9, 512)
	e.want("store 1 at 0")
	e.hear(other, wire.Data, 2, 2, 512)
	e.hear(other, wire.RepairResponse, 2, 9, 512)
	e.hear(serverAddress, wire.RepairResponse, 2, 9, 512) // nobody asked
	e.want()
}

// "the server never retransmits any data packet" (§III-A): one that sends its first packets again has begun another transfer, of which
// nothing belongs to what a client has; it may have another port by now. What the network held back is no such sign.
func TestServerBeginsAnew(t *testing.T) {
	restarted, other := netip.AddrPortFrom(serverAddress.Addr(), 40000), netip.MustParseAddrPort("10.0.0.2:7431")
	for _, c := range []struct {
		from  netip.AddrPort
		after time.Duration
		had   uint32
		sn    uint32
		want  []string
	}{
		{serverAddress, 3 * time.Second, 5, 1, []string{"begun_anew 0"}},
		{serverAddress, 3 * time.Second, 500, 300, []string{"begun_anew 0"}}, // its first did not come
		{restarted, 3 * time.Second, 5, 1, []string{"begun_anew 0"}},
		{other, 3 * time.Second, 5, 1, nil},
		{serverAddress, 900 * ms, 500, 1, nil},
		{serverAddress, 3 * time.Second, 500, 450, nil}, // of the last windows
		{restarted, 900 * ms, 5, 1, nil},
	} {
		for _, o := range []paper.ReceiverOptions{correcting, {}} {
			e := listen(t, o)
			for sn := uint32(1); sn <= c.had; sn++ {
				e.data(sn, 1000, 512)
			}
			e.wait(c.after)
			e.done = nil
			e.hear(c.from, wire.Data, c.sn, 1000, 512)
			e.want(c.want...)
		}
	}
}

// What is discarded or refused does not show that the server of a client's own transfer is still there.
func TestDiscardedIsNoSignOfLife(t *testing.T) {
	for _, discarded := range []func(*ear){
		func(e *ear) { e.data(4, 9, 512) },  // came already
		func(e *ear) { e.data(6, 9, 1000) }, // contradicts
	} {
		e := listen(t, paper.ReceiverOptions{ErrorCorrection: true, GivingUp: 2 * time.Second})
		for sn := uint32(1); sn <= 5; sn++ {
			e.data(sn, 9, 512)
		}
		for range 30 {
			e.wait(100 * ms)
			discarded(e)
		}
		if last := e.done[len(e.done)-1]; last != "sender_lost 0" {
			t.Errorf("after 3 s the last was %q", last)
		}
	}
}

// What contradicts what is known of a transfer is refused as if it had not come.
func TestContradictionsAreRefused(t *testing.T) {
	e := listen(t, correcting)
	e.data(1, 9, 512)
	e.data(2, 9, 512)
	e.want("store 1 at 0", "store 2 at 512")
	e.data(3, 9, 513) // larger than all
	e.data(wire.MaxSN, wire.MaxSN, 512)
	e.want()
	e.data(3, 9, 100) // the last
	e.want("store 3 at 1024")
	e.data(4, 9, 512)
	e.data(4, 9, 100)
	e.data(5, 9, 0)
	e.want()
	e.data(4, 4, 0)
	e.data(5, 5, 0)
	e.wait(ms)
	e.want("ACK 4", "done 1124")
}

// C60: numbers up to the last are as good as others.
func TestLastNumbers(t *testing.T) {
	e := listen(t, correcting)
	e.data(wire.MaxSN-1, wire.MaxSN, 512)
	e.data(wire.MaxSN, wire.MaxSN, 0)
	e.want("NACK 4294967294", "mark 1-4294967293", "store 4294967294 at 2199023254016", "REPAIR-REQUEST 1")
	if e.Missing() != wire.MaxSN-2 {
		t.Errorf("%d missing", e.Missing())
	}
}

// Without the error-correction phase payloads come in order, losses are told, and nothing is asked for.
func TestStreamReportsLosses(t *testing.T) {
	e := listen(t, paper.ReceiverOptions{})
	e.data(1, 3, 10)
	e.data(4, 6, 300)
	e.data(5, 6, 20)
	e.wait(20 * time.Second)
	e.data(6, 6, 0)
	e.wait(ms)
	e.want("store 1 at 0", "NACK 4", "mark 2-3", "store 4 at 0", "store 5 at 0", "ACK 6", "done 0")
	lost := listen(t, paper.ReceiverOptions{})
	lost.data(1, 3, 10)
	lost.wait(time.Minute)
	lost.want("store 1 at 0", "sender_lost 0")
}

// Whatever comes, a client neither panics nor stores at two places at once what it claims to have.
func TestAnyPackets(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		c := paper.NewReceiver(paper.ReceiverOptions{LAN: subnet(0), ErrorCorrection: rapid.Bool().Draw(r, "correcting")}, drawn(0))
		now := time.Unix(1_000_000, 0)
		for range rapid.IntRange(1, 60).Draw(r, "packets") {
			sn := rapid.SampledFrom([]uint32{1, 2, 3, 4, 5, 6, wire.MaxSN - 1, wire.MaxSN}).Draw(r, "sn")
			p := wire.Packet{
				SN: sn, LWSN: max(sn, rapid.Uint32Range(1, 8).Draw(r, "lwsn")),
				Type:    rapid.SampledFrom([]wire.Type{wire.Data, wire.ACK, wire.NACK, wire.RepairRequest, wire.RepairResponse}).Draw(r, "type"),
				Payload: make([]byte, rapid.SampledFrom([]int{0, 1, 512, 600}).Draw(r, "payload")),
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(r, "ms")) * ms)
			for _, action := range c.Step(now, paper.Packet{From: serverAddress, Packet: p}) {
				if s, is := action.(paper.Store); is && (s.Offset < 0 || s.Offset > int64(wire.MaxSN)*600) {
					r.Fatalf("stored at %d", s.Offset)
				}
			}
		}
	})
}
