package receive

import (
	"testing"
	"testing/synctest"
	"time"

	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// sealer seals under the first, the second and the third key of a group, of which a member is told more and more.
type sealer struct {
	*testing.T
	session wire.Secret
	told    int
	ring    *ring
	number  uint64
}

func keyOf(i int) []byte { return []byte{byte(i)} }

func newSealer(t *testing.T) *sealer {
	s := &sealer{T: t, session: wire.NewSecret(keyOf(0), wire.Salt{1})}
	heard := announced{key: keyOf(0), keys: newKeys(Config{Key: keyOf(0), Next: func() []byte { return keyOf(s.told) }})}
	heard.Secret = s.session
	s.ring = newRing(heard)
	return s
}

// want seals something under a key, and wants it to be opened or not.
func (s *sealer) want(key int, opened bool) {
	s.Helper()
	s.number++
	datagram := s.session.Under(keyOf(key)).Group().Seal(nil, wire.Head{Kind: wire.Data, Number: s.number}, []byte("x"))
	head, err := wire.ParseHead(datagram)
	if err != nil {
		s.Fatal(err)
	}
	if _, err := s.ring.open(nil, head, 0, datagram); (err == nil) != opened {
		s.Errorf("what is sealed with key %d: %v", key, err)
	}
}

// reliability D 9: a receiver holds the key and the next; the first is forgotten at most 3 s after something came under the
// next, and not before: nothing is lost.
func TestKeysFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSealer(t)
		s.want(0, true)
		s.want(1, false) // it was not told
		s.told = 1
		s.want(0, true)
		time.Sleep(time.Minute) // the sender may hear nothing of the managers
		s.want(0, true)
		s.want(1, true)
		s.want(0, true) // that was overtaken
		time.Sleep(time.Second)
		s.want(1, true)
		s.want(0, true)
		time.Sleep(2 * time.Second)
		s.want(0, false)
		s.want(1, true)
	})
}

// Of several keys in a row the sender may leave some out, and each that it has used ends by the next.
func TestSeveralKeysInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSealer(t)
		s.told = 1
		s.ring.update(time.Now())
		s.told = 2
		s.want(0, true)
		s.want(1, true)
		s.want(2, true)
		s.want(1, true)
		time.Sleep(forgetAfter + time.Millisecond)
		s.ring.update(time.Now())
		if len(s.ring.boxes) != 1 {
			t.Errorf("%d keys are held", len(s.ring.boxes))
		}
		s.want(0, false)
		s.want(1, false)
		s.want(2, true)
	})
}

// A sender that begins is believed under an earlier key only for as long as it may not have been told the next.
func TestSendersBeginUnderTheNewestKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSealer(t)
		s.told = 1
		if all := s.ring.keys.valid(time.Now()); len(all) != 2 || all[0][0] != 1 {
			t.Errorf("at first it is listened under %v", all)
		}
		time.Sleep(listenAfter + time.Millisecond)
		if all := s.ring.keys.valid(time.Now()); len(all) != 1 || all[0][0] != 1 {
			t.Errorf("later it is listened under %v", all)
		}
	})
}
