package relay

// Children of a delivery with hashes take only what they lack, and so does this agent.

// lonePatience is for how many looks in a row a child may be away before the others go on without it. It needs about three round trips
// to come back and ask for something else.
const lonePatience = 4

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

// skip has the parent go on from where children ask, if that is further on, and does not wait for children that stay away.
func (d *delivery) skip() {
	if !d.isHashed() || d.begin != nil {
		return
	}
	if d.account.Gathered() {
		d.away = 0
	} else {
		d.away++
	}
	d.account.WaitForAll(d.away < lonePatience)
	if begin, ahead := d.account.Ahead(d.whileOpening()); ahead {
		d.begin = &begin
	}
}
