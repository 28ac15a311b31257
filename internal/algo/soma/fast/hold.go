package fast

import (
	"time"

	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// holdMost is how long, once the root is known, members are waited for that may have all already.
const holdMost = 5 * time.Second

// hold is that no block is sent yet, because some members may have all already. They say that they
// have landed, the source is hashed first, and the root tells. A member that turns out to have
// something else joins again with less.
type hold struct {
	isOn  bool
	until time.Time // zero before the root is known
}

// watch ends the hold when it is known what each member has, and has the sender begin
// with the first block that one of them misses.
func (h *hold) watch(s *Sender, now time.Time) {
	if !h.isOn || !s.sealed {
		return
	}
	if h.until.IsZero() {
		h.until = now.Add(holdMost)
	}
	first := s.set.Blocks()
	for _, m := range s.members {
		if m.outcome != Running {
			continue
		}
		if m.isUndecided() && now.Before(h.until) {
			return
		}
		if m.state == wire.Receiving {
			first = min(first, m.frontier)
		}
	}
	h.isOn, s.passed, s.began = false, first, first
	for _, m := range s.members { // what polls alone have told says nothing of how fast packets arrive
		m.perSend, m.number, m.sentAt = 0, s.next, now
	}
	s.window.Again()
}

// isUndecided reports whether it is not known yet what a member misses.
func (m *member) isUndecided() bool {
	return m.answered == 0 && !m.isSilent || m.state == wire.Landed || m.state == wire.Settling
}
