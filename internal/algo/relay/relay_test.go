package relay_test

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/relay"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const block = 4096

// agent is SA1 of figure 4: it is fed by Sx and feeds Rx1, Rx2 and SA2.
type agent struct {
	*testing.T
	*relay.Account
	room, length uint64
}

func newAgent(t *testing.T, rules relay.Rules, room uint64, children ...string) *agent {
	a := &agent{T: t, Account: relay.New(rules), room: room, length: math.MaxInt64}
	a.Expect(children)
	for _, child := range children {
		a.Attach(child, 0, start)
	}
	a.settle()
	return a
}

// settle gives credit for the room that there is.
func (a *agent) settle() { a.Reserve(a.room, a.length) }

// receive makes packets of a block each come from the parent.
func (a *agent) receive(packets uint64) {
	a.Helper()
	upTo := a.Offset() + packets*block
	if upTo > a.Credit() {
		a.Fatalf("%d packets come, credit is up to %d", packets, a.Credit())
	}
	a.Arrived(upTo)
	a.settle()
}

// beginAgain has the delivery begin again from its start, for the children that wait.
func (a *agent) beginAgain() {
	a.Helper()
	from, needed := a.Unpark(start)
	if !needed || from != 0 {
		a.Fatalf("begin again: %t from %d, want from 0", needed, from)
	}
	a.Restart(from)
	a.settle()
	a.receive(4)
}

// ack sends a child so many packets in all, and has it acknowledge them.
func (a *agent) ack(child string, packets uint64) {
	a.Helper()
	a.Sent(child, packets*block)
	if err := a.Acked(child, packets*block); err != nil {
		a.Fatal(err)
	}
	a.settle()
}

func (a *agent) wantAck(packets uint64) {
	a.Helper()
	if got := a.Ack(); got != packets*block {
		a.Errorf("%d bytes are acknowledged, want %d packets", got, packets)
	}
}

func (a *agent) wantCached(packets uint64) {
	a.Helper()
	if got := a.Cached(); got != packets*block {
		a.Errorf("%d bytes are cached, want %d packets", got, packets)
	}
}

// "When session agent SA1 receives successive packets of sequence number 1 and 2 from
// sender Sx, it caches the received packets, and then immediately returns acknowledgment
// (ACK) packets to the sender." (000 §III-A)
func TestHopAcknowledgesAtOnce(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.Hop}, 100*block, "Rx1", "Rx2", "SA2")
	a.receive(2)
	a.wantAck(2)
	a.wantCached(2)
}

// "It keeps the cached packets for future re-transmission until all packets sent are
// acknowledged. When it receives ACK packets from all receivers and the session agent, it
// discards the cached packet." (000 §III-A)
func TestPacketIsKeptUntilAllHaveIt(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.Hop}, 100*block, "Rx1", "Rx2", "SA2")
	a.receive(2)
	a.ack("Rx1", 2)
	a.ack("Rx2", 2)
	a.wantCached(2)
	if got := a.Discard(2*block, math.MaxUint64); got != 0 {
		t.Errorf("%d bytes are discarded that SA2 lacks", got)
	}
	a.ack("SA2", 1)
	a.wantCached(1)
	if got := a.Discard(2*block, math.MaxUint64); got != block {
		t.Errorf("%d bytes are discarded, want the one packet that all have", got)
	}
}

// "a receiver (including session agents) requests the next data packet to a sender
// immediately after it receives data packets, regardless of the transmission state to
// other group member" (000 §III-A): as long as there is room.
func TestHopAsksForMoreRegardlessOfChildren(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.Hop}, 10*block, "Rx1")
	a.receive(4)
	if got := a.Credit(); got != 10*block {
		t.Errorf("credit is up to %d, want all the room", got)
	}
}

// "the session agent returns ACK packets to the sender after receiving it from all the
// receivers and session agents" (000 §III-B)
func TestEndToEndAcknowledgesAfterAll(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.EndToEnd, Window: 10 * block}, 100*block, "Rx1", "Rx2", "SA2")
	a.receive(2)
	a.wantAck(0)
	a.ack("Rx1", 2)
	a.ack("Rx2", 1)
	a.wantAck(0)
	a.ack("SA2", 2)
	a.wantAck(1)
	a.ack("Rx2", 2)
	a.wantAck(2)
}

// "session agents discard cached packets before they receive new data packets, and this
// suppresses the packet cache size of session agents" (000 §III-B): at most a window is
// cached, however much room there is.
func TestEndToEndBoundsTheCache(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.EndToEnd, Window: 8 * block}, 1000*block, "Rx1", "Rx2")
	for i := range uint64(100) {
		if a.Credit() > a.Offset() {
			a.receive((a.Credit() - a.Offset()) / block)
		}
		a.ack("Rx1", a.Offset()/block)
		a.ack("Rx2", i)
	}
	if got := a.MaxCached(); got != 8*block {
		t.Errorf("at most %d bytes were cached, want the window", got)
	}
}

// "session agents perform flow control to avoid the overflow of an output buffer. It means
// that the output packets transmitted from session agents are not lost" (000 §III-A)
func TestFullCacheStopsTheCredit(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.Hop, Slow: relay.Pace}, 4*block, "Rx1", "Rx2")
	a.receive(4)
	a.ack("Rx1", 4)
	if !a.Stalled() {
		t.Error("there is credit without room")
	}
	a.ack("Rx2", 1)
	a.Discard(block, math.MaxUint64)
	a.settle()
	if got := a.Credit(); got != 5*block {
		t.Errorf("credit is up to %d, want one packet more", got)
	}
}

func TestChildThatIsExpectedCountsBeforeItComes(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.EndToEnd, Window: 10 * block}, 100*block)
	a.Expect([]string{"Rx1"})
	a.receive(2)
	a.wantAck(0)
	a.Expect(nil) // it died, and the tree goes on without it
	a.wantAck(2)
}

func TestAgentWithoutChildrenAcknowledgesAll(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.EndToEnd, Window: 10 * block}, 100*block)
	a.receive(3)
	a.wantAck(3)
	a.wantCached(0)
}

// C13: a child cannot open the sender's window by acknowledging ahead.
func TestC13AcknowledgementOfWhatWasNotSent(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.Hop}, 100*block, "Rx1")
	a.receive(2)
	a.Sent("Rx1", block)
	if err := a.Acked("Rx1", 2*block); !errors.Is(err, relay.ErrNotSent) {
		t.Errorf("%v, want it refused", err)
	}
	a.wantCached(2)
}

func TestChildComesBackWhereItWas(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.Hop}, 100*block, "Rx1", "Rx2")
	a.receive(10)
	a.ack("Rx1", 10)
	a.ack("Rx2", 4)
	a.Detach("Rx2")
	a.Discard(10*block, math.MaxUint64)
	if served := a.Attach("Rx2", 4*block, start); !served {
		t.Error("what it had not acknowledged is gone")
	}
	if served := a.Attach("Rx1", 2*block, start); served {
		t.Error("a child is served what was discarded")
	}
}

func TestDiscardStopsWhereSomebodyReads(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.Hop}, 100*block, "Rx1")
	a.receive(10)
	a.ack("Rx1", 10)
	if got := a.Discard(10*block, 3*block); got != 3*block {
		t.Errorf("discarded up to %d, want 3 packets", got)
	}
}

func TestWhatIsLeftOfAnEndedDeliveryNeedNotFillAGrain(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.Hop, Grain: 4 * block}, 100*block, "Rx1")
	a.receive(10)
	a.ack("Rx1", 9)
	if got := a.DiscardAll(math.MaxUint64); got != 8*block {
		t.Errorf("discarded up to %d, want 8 packets: one is not acknowledged", got)
	}
	a.ack("Rx1", 10)
	if got := a.Discard(10*block, math.MaxUint64); got != 8*block {
		t.Errorf("discarded up to %d, want 8 packets: more may come", got)
	}
	if got := a.DiscardAll(9 * block); got != 8*block {
		t.Errorf("discarded up to %d, want 8 packets: somebody reads", got)
	}
	if got := a.DiscardAll(math.MaxUint64); got != 10*block || a.Held() != 0 {
		t.Errorf("discarded up to %d, want all", got)
	}
}

// Detach: the slow child loses its place in a full cache, and the others go on. When they are done,
// the delivery begins again for it.
func TestDetachedChildIsServedAfterTheOthers(t *testing.T) {
	a := newAgent(t, relay.Rules{Mode: relay.Hop, Slow: relay.Detach}, 4*block, "fast", "slow")
	a.length = 8 * block
	a.receive(4)
	a.ack("fast", 4)
	if parked := a.ParkSlowest(start); len(parked) > 0 {
		t.Fatalf("%v are parked, who have held up nobody before", parked)
	}
	if parked := a.ParkSlowest(start.Add(time.Second)); !slices.Equal(parked, []string{"slow"}) {
		t.Fatalf("%v are parked, want the slow one", parked)
	}
	a.Discard(4*block, math.MaxUint64)
	a.settle()
	a.receive(4)
	if a.Serves("slow") {
		t.Error("the slow one is served from where nothing is")
	}
	if _, needed := a.Unpark(start); needed {
		t.Error("begun again before the others are done")
	}
	a.ack("fast", 8)
	a.End()
	a.beginAgain()
	if !a.Serves("slow") || a.Cached() != 4*block {
		t.Errorf("serves: %t, cached: %d", a.Serves("slow"), a.Cached())
	}
}

// Bytes that the cache has given back since the delivery began are lost; those that it still has, or never had, are not.
func TestWhatIsLostIsWhatWasHere(t *testing.T) {
	a := relay.New(relay.Rules{Mode: relay.Hop})
	a.Expect([]string{"Rx1"})
	a.Restart(4 * block)
	a.Attach("Rx1", 4*block, start)
	a.Arrived(8 * block)
	a.Sent("Rx1", 8*block)
	if err := a.Acked("Rx1", 8*block); err != nil {
		t.Fatal(err)
	}
	a.DiscardAll(math.MaxUint64)
	for from, lost := range map[uint64]bool{0: false, 3 * block: false, 4 * block: true, 7 * block: true, 8 * block: false, 9 * block: false} {
		if a.Lost(from) != lost {
			t.Errorf("what follows %d is lost: %t", from, !lost)
		}
	}
}
