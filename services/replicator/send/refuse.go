package send

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/printable"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// RefusedError says that all receivers that came refused.
type RefusedError struct{ Receipts []Receipt }

// mostNamed is for how many receivers an error says why they refused.
const mostNamed = 3

func (e *RefusedError) Error() string {
	var why []string
	for _, r := range e.Receipts[:min(len(e.Receipts), mostNamed)] {
		why = append(why, fmt.Sprintf("%s: %s", r.Name, cmp.Or(r.Detail, r.Reason)))
	}
	if more := len(e.Receipts) - mostNamed; more > 0 {
		why = append(why, fmt.Sprintf("and %d more", more))
	}
	all := fmt.Sprintf("all %d receivers refused", len(e.Receipts))
	if len(e.Receipts) == 1 {
		all = "the only receiver refused"
	}
	return all + ": " + strings.Join(why, "; ")
}

// who is what a receiver is known by, whatever key it has: by its name where that is proven, and by its name and
// address where anybody could say it; where two live that have both, by the port of the elder, too.
type who struct {
	name    string
	address netip.Addr
	port    uint16
}

// called is what users call it.
func (w who) called() string {
	if w.port > 0 {
		return fmt.Sprintf("%s:%d", printable.Text(w.name), w.port)
	}
	return printable.Text(w.name)
}

// speaks notes from where a member's report came, which nobody else can make: by its address it is told from others of its name.
func (p *peer) speaks(from netip.AddrPort) {
	p.at = from
	if p.address.IsValid() {
		p.address = from.Addr()
	}
	if p.port > 0 {
		p.port = from.Port()
	}
}

// identify returns which receiver a JOIN is of, unless it has a name that it does not prove, and the key by which the receiver wants
// this sender to prove itself; nil if it does not. The caller has the lock.
func (s *session) identify(j wire.Joining, public []byte, from netip.AddrPort) (by who, mutual []byte, ok bool) {
	if s.isOut(j.Name) {
		return who{}, nil, false
	}
	if s.config.NameKey == nil {
		return who{name: j.Name, address: from.Addr()}, nil, true
	}
	key := s.config.NameKey(j.Name)
	mutual, own := s.announcement().MutualKey(key), s.private.PublicKey().Bytes()
	switch {
	case s.secrets.current.IsProven(mutual, own, public, j):
		return who{name: j.Name}, mutual, true
	case s.secrets.current.IsProven(key, own, public, j): // of an earlier version, or its managers do not know that this sender can
		return who{name: j.Name}, nil, true
	case s.config.Unproven != nil && s.config.Unproven(j.Name) && !s.hasProven(j.Name):
		return who{name: j.Name, address: from.Addr()}, nil, true
	case !s.hasWarned:
		s.hasWarned = true // once: there may be any number of them
		s.env.Log.Warn("somebody joins under a name and does not prove it: not taken", "receiver", j.Name, "address", from.String())
	}
	return who{}, nil, false
}

// hasProven reports whether a receiver that is heard has proved that a name is its own. The caller has the lock.
func (s *session) hasProven(name string) bool {
	for _, p := range s.joined {
		if p.who != (who{name: name}) || p.isOld {
			continue
		}
		if s.rules == nil {
			return true
		}
		if is := s.rules.Member(p.id); is.Outcome == algo.Running && !is.Silent {
			return true
		}
	}
	return false
}

// refusal is what a receiver said that cannot take part. It holds until the same receiver joins.
type refusal struct {
	wire.Joining
	who
	at netip.AddrPort
}

// isSame reports whether a refusal is of the receiver that was this member.
func (p *peer) isSame(r *refusal) bool { return p.who == r.who }

func (r *refusal) receipt() Receipt {
	return Receipt{Name: r.called(), LAN: printable.Text(r.LAN), Address: r.at, Outcome: algo.Failed, Reason: r.Refused.String(), Detail: r.Detail}
}

// refuse notes that a receiver cannot take part, which says so several times. The caller has the lock.
func (s *session) refuse(j wire.Joining, by who, from netip.AddrPort) {
	j.Detail = printable.Text(j.Detail)
	r := &refusal{j, by, from}
	delete(s.coming, j.Name)
	known := s.refused[by]
	if known != nil && known.Joining == j || known == nil && len(s.refused) >= maxMembers {
		return
	}
	s.refused[by] = r
	s.env.Log.Warn("receiver refused", "receiver", j.Name, "address", from.String(), "lan", j.LAN, "reason", j.Refused.String(), "detail", j.Detail)
}

// refusals are of receivers that take no part, by their names: a receiver that is started a second time beside itself
// refuses, and takes nothing from the first. The caller has the lock.
func (s *session) refusals() []*refusal {
	if len(s.refused) == 0 {
		return nil
	}
	left := maps.Clone(s.refused)
	for _, p := range s.joined {
		if !p.isOld && (s.rules == nil || s.rules.Member(p.id).Outcome != algo.Unknown) {
			delete(left, p.who)
		}
	}
	return slices.SortedFunc(maps.Values(left), func(a, b *refusal) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), a.at.Compare(b.at))
	})
}
