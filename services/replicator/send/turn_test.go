package send

import (
	"crypto/ecdh"
	"crypto/rand"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// turning returns a session that has not begun, and what it is told.
func turning(t *testing.T) (s *session, told *Turn) {
	t.Helper()
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	told = &Turn{Key: []byte{0}}
	secret := wire.NewSecret(told.Key, wire.Salt{1})
	return &session{
		env: Env{Log: slog.New(slog.DiscardHandler)}, config: Config{Turn: func() Turn { return *told }}, private: private,
		secrets: secrets{current: &secret, newest: told.Key}, group: secret.Group(),
		joined: map[[wire.PublicSize]byte]*peer{}, joins: map[[wire.PublicSize]byte]uint64{}, ousted: map[[wire.PublicSize]byte]time.Time{}, coming: map[string]time.Time{}, refused: map[who]*refusal{},
	}, told
}

// wantKey wants what is said to the group to be sealed with a key.
func wantKey(t *testing.T, s *session, key byte) {
	t.Helper()
	datagram := s.group.Seal(nil, wire.Head{Kind: wire.Data}, []byte("x"))
	head, err := wire.ParseHead(datagram)
	if err == nil {
		_, err = wire.NewSecret([]byte{key}, wire.Salt{1}).Group().Open(nil, head, datagram)
	}
	if err != nil {
		t.Errorf("it is not sealed with key %d: %v", key, err)
	}
}

// reliability D 9: a sender goes over to the next key when all have said that they have it, or after 2 s, whatever comes
// after that.
func TestSenderTurnsToTheNextKey(t *testing.T) {
	s, told := turning(t)
	begin := time.Now()
	after := func(d time.Duration) { s.turn(begin.Add(d)) }
	told.Key = []byte{1}
	after(0)
	wantKey(t, s, 0)
	told.IsKnown = true
	after(100 * time.Millisecond)
	wantKey(t, s, 1)
	told.Key, told.IsKnown = []byte{2}, false
	after(time.Second)
	told.Key = []byte{3}
	after(2 * time.Second)
	after(3*time.Second - time.Millisecond)
	wantKey(t, s, 1)
	after(3 * time.Second)
	wantKey(t, s, 3)
}

// joins has somebody join under a key, and reports whether it is taken in.
func joins(t *testing.T, s *session, key byte, public byte, name string) bool {
	t.Helper()
	member := publicOf(public)
	before, number := time.Now(), s.joins[member]
	hears(t, s, wire.NewSecret([]byte{key}, wire.Salt{1}).JoinAs(number, member[:], wire.Joining{Heard: wire.MinDatagram, Name: name}))
	p := s.joined[member]
	return p != nil && !p.seen.Before(before)
}

func publicOf(member byte) [wire.PublicSize]byte { return [wire.PublicSize]byte{9, member} }

// hears has a session hear a JOIN.
func hears(t *testing.T, s *session, datagram []byte) {
	t.Helper()
	head, err := wire.ParseHead(datagram)
	if err != nil {
		t.Fatal(err)
	}
	s.join(head, datagram, netip.MustParseAddrPort("10.0.0.1:7"))
}

// A receiver that joins does so under the newest key that it was told, which the sender may not have been told, or not use yet. A receiver that has
// joined says so again under the key that it had then, however many there were since. A receiver that is put out cannot, under any.
func TestJoinsOfEachKey(t *testing.T) {
	s, told := turning(t)
	now := time.Now()
	next := func(key byte, isKnown bool) {
		told.Key, told.IsKnown = []byte{key}, isKnown
		s.turn(now)
	}
	first := joins(t, s, 0, 1, "a")
	early := joins(t, s, 1, 2, "b")
	next(1, false)
	pending := joins(t, s, 1, 3, "b")
	next(1, true)
	late := joins(t, s, 0, 4, "c")
	next(2, true)
	tooLate, again := joins(t, s, 0, 5, "d"), joins(t, s, 0, 1, "a")
	if !first || early || !pending || !late || tooLate || !again {
		t.Errorf("taken are: first %v, early %v, pending %v, late %v, too late %v, again %v", first, early, pending, late, tooLate, again)
	}
	told.Out = []string{"a"}
	s.turn(now)
	for key := range byte(3) {
		if joins(t, s, key, 1, "a") || joins(t, s, key, 6, "a") {
			t.Errorf("the one that is put out is taken under key %d", key)
		}
	}
	if len(s.joined) != 2 {
		t.Errorf("%d are left", len(s.joined))
	}
}
