package relay

// stripeCount returns how many connections the links to children are to have.
func (d *delivery) stripeCount() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.children {
		if c.link != nil {
			n += max(1, int(c.stripes.GetCount()))
		}
	}
	return n
}

// credit returns how much the parent may send that has not come yet; without a link to one, nothing.
func (d *delivery) credit() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inlet.links() == 0 {
		return 0
	}
	return d.account.Credit() - min(d.account.Offset(), d.account.Credit())
}
