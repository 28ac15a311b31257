package send

import "time"

// A receiver that joins under the name and from the address of another takes its place: as a rule it is the same, and was started again. But
// several may run on one machine, and have its name. One that is heard after another took its place lives beside that, and each is served: the
// elder is known by its port, too, from then on.

// overtaken is for how long what a receiver said may come after what the next one says, which took its place.
const overtaken = 100 * time.Millisecond

// lives has a member whose place another took, and which reports all the same, be one of its own. The caller has the lock.
func (s *session) lives(p *peer) {
	if !p.isOld || !p.address.IsValid() || time.Since(p.since) < overtaken {
		return
	}
	p.isOld, p.port = false, p.at.Port()
	s.rules.Return(p.id)
	s.warnOfTwins(p.who)
}

func (s *session) warnOfTwins(elder who) {
	s.env.Log.Warn("two receivers on one machine have one name: give one of them another (--name)", "receiver", elder.name, "address", elder.address.String(), "called", elder.called())
}
