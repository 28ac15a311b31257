package relay_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// A child that acknowledges what it was not sent is not fed in this delivery any more, and nobody waits for it: its sibling has all, and in
// end-to-end mode the sender goes on.
func TestC13LiarIsGivenUp(t *testing.T) {
	for name, spec := range modes() {
		if spec.GetDataPlane() == groupv1.DataPlane_DATA_PLANE_PLAINTEXT {
			continue
		}
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 16<<20, spec)
			w.start("sa1", 4<<20) // less than the object: a child that is waited for would hold up all
			w.tree("sa1", "sender", "honest", "liar")
			w.lie("liar", "sa1")
			if err := w.ask("liar", "sa1"); !isRefused(err, wire.Protocol) {
				t.Errorf("the liar came again: %v, want it refused as one that violates the protocol", err)
			}
			if child := w.childOf("sa1", "liar"); !child.GetEvicted() || child.GetAckedOffset() != 0 {
				t.Errorf("the managers are told of the liar: %v", child)
			}
			w.deliver("sa1", map[*member]string{newMember("honest"): "sa1"})
			if lies := w.agents["sa1"].counts(w, "refused_links")[wire.Protocol.String()]; lies == 0 {
				t.Error("the lie is not counted")
			}
		})
	}
}

// In plaintext somebody on the way may have changed what a child said: the link ends, and the child comes again.
func TestC13PlaintextAccusesNobody(t *testing.T) {
	w := newWorld(t, 1<<20, modes()["CONTROL_MODE_HOP-DATA_PLANE_PLAINTEXT"])
	w.start("sa1", 64<<20)
	w.tree("sa1", "sender", "r1")
	w.acknowledge("r1", "sa1", 1<<40)
	w.await("the lie is counted", func() bool { return w.agents["sa1"].counts(w, "refused_links")[wire.Protocol.String()] > 0 })
	if w.childOf("sa1", "r1").GetEvicted() {
		t.Error("the member is given up")
	}
	w.deliver("sa1", map[*member]string{newMember("r1"): "sa1"})
}

// Children that send frames at random, each allowed by itself, and then bytes at random, harm nobody: their sibling has all, and what they
// held is given back.
func TestC13FramesAtRandom(t *testing.T) {
	const size, liars = 4 << 20, 32
	for name, spec := range modes() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, size, spec)
			w.start("sa1", 64<<20)
			children := []string{"honest"}
			for i := range liars {
				children = append(children, fmt.Sprintf("liar-%d", i))
			}
			w.tree("sa1", "sender", children...)
			var all sync.WaitGroup
			for i, child := range children[1:] {
				all.Go(func() {
					conn, err := w.dialAs(child, "sa1")
					if err != nil {
						t.Errorf("%s is refused: %v", child, err)
						return
					}
					defer conn.Close()
					random := rand.New(rand.NewPCG(uint64(i), 13))
					for range random.IntN(20) {
						if conn.Send(anyFrame(random, size)) != nil {
							return // it was caught
						}
					}
					garbage := make([]byte, random.IntN(100))
					for i := range garbage {
						garbage[i] = byte(random.Uint32())
					}
					_ = conn.Send(garbage) // it may have been caught
				})
			}
			w.deliver("sa1", map[*member]string{newMember("honest"): "sa1"})
			all.Wait()
			for _, child := range children[1:] {
				w.await("the link of a liar has ended", func() bool { return !w.childOf("sa1", child).GetConnected() })
			}
			if caught := w.agents["sa1"].counts(w, "refused_links")[wire.Protocol.String()]; caught < liars/2 {
				t.Errorf("%v of %d are caught", caught, liars)
			}
		})
	}
}

// anyFrame returns a frame that a peer may send at some time, with a payload of zeros.
func anyFrame(random *rand.Rand, size uint64) []byte {
	offsets := []uint64{0, 1, random.Uint64N(size), size - 1, size, size + 1, wire.MaxOffset - wire.MaxData}
	h := wire.Header{Type: wire.Data + wire.Type(random.IntN(int(wire.Stripes))), Offset: offsets[random.IntN(len(offsets))], TreeVersion: random.Uint64N(3)}
	switch h.Type {
	case wire.Data:
		h.Length = 1 + random.Uint32N(1<<10)
	case wire.End:
		h.Length = wire.RootSize
	case wire.Ack:
		h.Level = wire.Relayed + wire.Level(random.IntN(int(wire.Durable)))
	case wire.Bye:
		h.Length = 2
	case wire.Stripes:
		h.Offset = 1 + random.Uint64N(wire.MaxStripes)
	}
	return append(h.Append(nil), make([]byte, h.Length)...)
}

func isRefused(err error, reason wire.Reason) bool {
	var refusal *wire.Refusal
	return errors.As(err, &refusal) && refusal.Reason == reason
}

// dialAs opens a link as a member.
func (w *world) dialAs(name, to string) (*link.Conn, error) { return w.dialFrom(name, to, 0) }

// dialFrom opens a link as a member that says that it has all before an offset.
func (w *world) dialFrom(name, to string, from uint64) (*link.Conn, error) {
	id := identity.ID{Role: identity.Member, Name: name}
	hello := w.hello(w.capability(id, identity.Receive))
	hello.From = from
	conn, _, err := link.Dial(w.Context(), &net.Dialer{}, w.agents[to].address, w.identity(id), identity.ID{Role: identity.Agent, Name: to}, hello)
	return conn, err
}

// A child that says it has more than there is of an object is not heeded: an agent whose only child it is would have
// nothing from before that for children that come later.
func TestC13ClaimBeyondTheEndIsRefused(t *testing.T) {
	const size = 1 << 20
	for name, spec := range modes() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, size, spec)
			w.start("sa1", 64<<20)
			w.start("sa2", 64<<20)
			w.tree("sa1", "sender", "sa2")
			w.tree("sa2", "sa1", "liar")
			for _, from := range []uint64{size + 1, 1 << 62} {
				conn, err := w.dialFrom("liar", "sa2", from)
				if err == nil {
					defer conn.Close()
				}
				if !isRefused(err, wire.Protocol) {
					t.Errorf("from %d on: %v, want it refused as one that violates the protocol", from, err)
				}
			}
			w.version++
			w.tree("sa2", "sa1", "liar", "r1")
			w.deliver("sa1", map[*member]string{newMember("r1"): "sa2"})
		})
	}
}

// Only its sender knows how far a stream is. What the only children of agents say that they have is believed until somebody needs what was
// before it.
func TestC13ClaimOfWhatAStreamNeverHad(t *testing.T) {
	for name, spec := range modes() {
		t.Run(name, func(t *testing.T) {
			w, sa2 := newMisledStream(t, spec)
			w.version++
			w.tree("sa2", "sa1", "liar", "r1")
			w.deliver("sa1", map[*member]string{newMember("r1"): "sa2"})
			if bytes := sa2.Reports()[0].GetBytes(); bytes != uint64(len(w.content)) {
				t.Errorf("%d bytes are reported, want %d", bytes, len(w.content))
			}
		})
	}
}

// When the managers say how long a stream was, no agent says that it has more of it.
func TestC13ClaimIsForgottenWhenTheStreamIsSealed(t *testing.T) {
	w, sa2 := newMisledStream(t, modes()["CONTROL_MODE_HOP-DATA_PLANE_TLS"])
	w.sealed = true
	w.assign("sa2", false)
	w.await("the agent says no more than there is", func() bool { return sa2.Reports()[0].GetBytes() <= uint64(len(w.content)) })
	w.version++
	w.tree("sa2", "sa1", "liar", "r1")
	w.deliver("sa1", map[*member]string{newMember("r1"): "sa2"})
}

// newMisledStream returns a stream through two agents. The second has only one child, which says that it has more than was ever sent.
func newMisledStream(t *testing.T, spec *groupv1.DeliverySpec) (w *world, sa2 *agent) {
	w = newWorld(t, 1<<20, spec)
	spec.Kind, spec.Length, spec.LengthUnknown = groupv1.DeliveryKind_DELIVERY_KIND_STREAM, 0, true
	w.start("sa1", 64<<20)
	sa2 = w.start("sa2", 64<<20)
	w.tree("sa1", "sender", "sa2")
	w.tree("sa2", "sa1", "liar")
	conn, err := w.dialFrom("liar", "sa2", 1<<62)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	w.await("the first agent believes it, too", func() bool { return w.agents["sa1"].count(w, "restarts") > 0 })
	return w, sa2
}

// ask returns what comes of a link that a member asks for.
func (w *world) ask(name, to string) error {
	conn, err := w.dialAs(name, to)
	if err == nil {
		conn.Close()
	}
	return err
}

// lie has a member acknowledge what it was not sent, and waits until the member is given up.
func (w *world) lie(name, to string) {
	w.Helper()
	w.acknowledge(name, to, 1<<40)
	w.await("the liar is given up", func() bool { return w.childOf(to, name).GetEvicted() && !w.childOf(to, name).GetConnected() })
}

// acknowledge has a member say, over a link of its own, that it has so much, and waits until that link has ended.
func (w *world) acknowledge(name, to string, upTo uint64) {
	w.Helper()
	conn, err := w.dialAs(name, to)
	if err != nil {
		w.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Send(wire.Header{Type: wire.Ack, Level: wire.Received, Offset: upTo}.Append(nil)); err != nil {
		w.Fatal(err)
	}
	w.await("the link has ended", func() bool { return !w.childOf(to, name).GetConnected() })
}
