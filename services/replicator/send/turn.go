package send

import (
	"bytes"
	"slices"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// Turn is what managers change of a group while something is sent to it.
type Turn struct {
	// Key is the group's newest, and IsKnown that all have said that they have it.
	Key     []byte
	IsKnown bool
	// Out are the names of receivers that have no part any more. None is ever taken back.
	Out []string
}

// turnPatience is how long the sender waits until all have said that they have the new key: a receiver that was put out has the one before.
const turnPatience = 2 * time.Second

// turnEvery is how often it is looked for what managers have changed: not for each packet.
const turnEvery = 20 * time.Millisecond

// secrets are those of the session under the group's keys.
type secrets struct {
	current, before, next *wire.Secret // before and next are nil if there are none
	newest                []byte       // the key that was told last
	due                   time.Time    // when next is used in any case
}

// turn does what managers have changed. It is for the goroutine that sends.
func (s *session) turn(now time.Time) {
	if s.config.Turn == nil {
		return
	}
	told := s.config.Turn()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(told.Out) != len(s.out) {
		s.out = slices.Clone(told.Out)
		s.expel()
	}
	k := &s.secrets
	if !bytes.Equal(told.Key, k.newest) {
		if k.next == nil { // several in a row do not put it off
			k.due = now.Add(turnPatience)
		}
		next := k.current.Under(told.Key)
		k.next, k.newest = &next, told.Key
	}
	if k.next != nil && (told.IsKnown || !now.Before(k.due)) {
		k.before, k.current, k.next = k.current, k.next, nil
		s.group = k.current.Group()
		s.env.Log.Info("packets are sealed with another key", "all_know_it", told.IsKnown)
	}
}

// isOut reports whether the receiver of a name has no part any more. The caller has the lock.
func (s *session) isOut(name string) bool { return slices.Contains(s.out, name) }

// expel gives up receivers that have no part any more: nothing is taken from them, and nothing said to them. The caller has the lock.
func (s *session) expel() {
	for key, p := range s.joined {
		if !s.isOut(p.Name) || p.isOut {
			continue
		}
		p.isOut = true
		s.env.Log.Info("receiver is put out", "receiver", p.Name)
		switch {
		case s.rules == nil:
			delete(s.joined, key)
		case s.rules.Member(p.id).Outcome == algo.Running:
			s.rules.Leave(p.id)
		}
	}
	for _, name := range s.out {
		delete(s.coming, name)
	}
}

// openJoin opens a JOIN under the key that it may have: a member's under the one that it joined under first, any other under
// the newest, or the one before, for a receiver that was not told of the newest yet.
func (s *session) openJoin(head wire.Head, datagram []byte) (j wire.Joining, public []byte, under *wire.Secret, err error) {
	candidates := []*wire.Secret{s.secrets.current, s.secrets.next, s.secrets.before}
	if p := s.joined[wire.JoinKey(datagram)]; p != nil {
		candidates = []*wire.Secret{p.secret}
	}
	for _, under = range candidates {
		if under == nil {
			continue
		}
		if j, public, err = under.OpenJoin(head, datagram); err == nil {
			break
		}
	}
	return j, public, under, err
}
