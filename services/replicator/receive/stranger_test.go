package receive

import (
	"crypto/ecdh"
	"crypto/rand"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/udp"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// footprint is what a stranger might change of a replica.
type footprint struct {
	frontier, next       uint32
	state                wire.State
	open, held, ahead    int
	due, polled          time.Time
	letter               uint64
	isOver, isTold, isUp bool
	came                 uint64
}

func footprintOf(r *replica) footprint {
	return footprint{
		frontier: r.rules.Frontier(), next: r.blocks.next, state: r.rules.State(), open: len(r.blocks.open), held: len(r.blocks.held), ahead: len(r.blocks.ahead),
		due: r.rules.Due(), polled: r.pollHeard, letter: r.nextLetter, isOver: r.isOver, isTold: r.ended != nil, isUp: r.welcomed, came: r.stats.Came,
	}
}

// C41: what somebody says to a replica that has no key, to it alone or to the group, whatever it looks like, changes nothing, and ends
// nothing.
func TestStrangersAreNotHeard(t *testing.T) {
	r := receiving(t, 20_000)
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	if r.ear, err = udp.New(conn, 1<<16); err != nil {
		t.Fatal(err)
	}
	defer r.ear.Close()
	pairWith := func(secret wire.Secret) *wire.Box {
		t.Helper()
		own, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := secret.Pair(own, own.PublicKey().Bytes(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return pair.Down()
	}
	secret := r.heard.Secret
	r.down = pairWith(secret)
	group, payload := secret.Group(), make([]byte, r.shape.Packet)
	poll := group.Seal(nil, wire.Head{Kind: wire.Poll, Number: 7}, wire.Polled{Poll: 1, Passed: 1, Members: 1, Every: 1}.Append(nil))
	bye := r.down.Seal(nil, wire.Head{Kind: wire.Bye, Number: 3}, wire.AppendBye(nil, "the source is gone"))
	said := map[string][]byte{
		"a poll":          poll,
		"zeros":           group.Seal(nil, wire.Head{Kind: wire.Zero, Number: 8}, wire.AppendZero(nil, 1)),
		"a packet":        group.Seal(nil, wire.Head{Kind: wire.Data, Number: 9}, payload),
		"a shard":         group.Seal(nil, wire.Head{Kind: wire.Parity, Index: wire.PacketsPerBlock, Number: 10}, payload),
		"the root":        r.down.Seal(nil, wire.Head{Kind: wire.Seal, Number: 1}, wire.AppendSeal(nil, 20_000, [wire.RootSize]byte{1})),
		"a farewell":      bye,
		"another goes on": r.down.Seal(nil, wire.Head{Kind: wire.Yield, Number: 4}, nil),
		"a welcome":       r.down.Seal(nil, wire.Head{Kind: wire.Welcome, Number: 5}, wire.AppendWelcome(nil, 1400)),
	}
	before := footprintOf(r)
	want := func(what string, datagram []byte) {
		t.Helper()
		r.take(datagram, netip.AddrPort{})
		r.letter(datagram, netip.AddrPort{})
		if after := footprintOf(r); after != before {
			t.Fatalf("%s: %+v, want %+v", what, after, before)
		}
	}
	for what, datagram := range said {
		for bit := range min(len(datagram), 200) * 8 {
			forged := slices.Clone(datagram)
			forged[bit/8] ^= 1 << (bit % 8)
			want(what+" of which a bit is flipped", forged)
		}
		for size := range datagram {
			want(what+" that is cut off", datagram[:size])
		}
	}
	other := wire.NewSecret([]byte{7}, wire.Salt{1})
	for kind := range wire.Kind(255) {
		for _, box := range []*wire.Box{other.Group(), pairWith(other), pairWith(secret)} {
			want("under another key", box.Seal(nil, wire.Head{Kind: kind, Number: 1 << 40}, payload[:40]))
		}
	}

	r.take(poll, netip.AddrPort{})
	if footprintOf(r).polled.Equal(before.polled) {
		t.Error("the sender's own question is not heard then")
	}
	r.rules.Enter(wire.Receiving, wire.NoReason, [wire.RootSize]byte{}, time.Now())
	if _, is := r.rules.Report(time.Now()); !is {
		t.Error("nothing is answered")
	}
	r.stop = func() {}
	r.letter(bye, netip.AddrPort{})
	if r.ended == nil {
		t.Error("the sender's own farewell is not heard then")
	}
}
