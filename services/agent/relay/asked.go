package relay

// Children of a delivery with hashes take only what they lack, and so does this agent.

// All functions below are called with d.mu held.

// whenAsked returns what notes up to where a child may be sent bytes; nil if nobody has to know.
func (d *delivery) whenAsked(name string) func(upTo uint64) {
	if !d.isHashed() {
		return nil
	}
	return func(upTo uint64) {
		d.acknowledge(func() { d.account.Asks(name, upTo) })
	}
}

func (d *delivery) isHashed() bool { return d.assignment.GetSpec().GetHashed() }

// skip has the parent go on from where children ask, if that is further on. It reports whether it does.
func (d *delivery) skip() bool {
	if !d.isHashed() || d.begin != nil {
		return false
	}
	begin, ahead := d.account.Ahead(d.whileOpening())
	if ahead {
		d.begin = &begin
	}
	return ahead
}
