package relay_test

import (
	"errors"
	"net"
	"testing"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// A child that acknowledges what it was not sent is not fed in this delivery any more, and nobody waits for it: its
// sibling has all, and in end-to-end mode the sender goes on.
func TestC13LiarIsGivenUp(t *testing.T) {
	for name, spec := range modes() {
		if spec.GetDataPlane() == groupv1.DataPlane_DATA_PLANE_PLAINTEXT {
			continue
		}
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 16<<20, spec)
			w.start("sa1", 4<<20) // less than the object: who is waited for would hold up all
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

// In plaintext somebody on the way may have changed what it said: the link ends, and it comes again.
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

func isRefused(err error, reason wire.Reason) bool {
	var refusal *wire.Refusal
	return errors.As(err, &refusal) && refusal.Reason == reason
}

// dialAs opens a link as a member.
func (w *world) dialAs(name, to string) (*link.Conn, error) {
	id := identity.ID{Role: identity.Member, Name: name}
	hello := w.hello(w.capability(id, identity.Receive))
	conn, _, err := link.Dial(w.Context(), &net.Dialer{}, w.agents[to].address, w.identity(id), identity.ID{Role: identity.Agent, Name: to}, hello)
	return conn, err
}

// ask tells what comes of a link that a member asks for.
func (w *world) ask(name, to string) error {
	conn, err := w.dialAs(name, to)
	if err == nil {
		conn.Close()
	}
	return err
}

// lie has a member acknowledge what it was not sent, and waits until it is given up.
func (w *world) lie(name, to string) {
	w.Helper()
	w.acknowledge(name, to, 1<<40)
	w.await("the liar is given up", func() bool { return w.childOf(to, name).GetEvicted() && !w.childOf(to, name).GetConnected() })
}

// acknowledge has a member say over a link of its own that it has so much, and waits until that link has ended.
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
