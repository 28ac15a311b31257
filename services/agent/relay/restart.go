package relay

// restart has the parent send again, from where some child needs it: the cache no longer has what that child
// needs, or nobody needs what is before it. A child that is being sent something comes back and says where
// it is. It reports whether that was done: not, if the delivery is dropped before.
func (d *delivery) restart() (done bool) {
	release, err := d.inlet.seize(d.ctx)
	if err != nil {
		return false
	}
	defer release()
	d.mu.Lock()
	for d.reading() {
		for _, c := range d.children {
			if len(c.reads) > 0 {
				c.close()
			}
		}
		d.quiet.Wait()
	}
	from := d.account.Needed(*d.begin) // a child may have come meanwhile
	d.log.Info("beginning again from where children need it", "from", from)
	d.hub.Metrics.restarts.WithLabelValues(d.causeToBegin(from)).Inc()
	d.hub.Metrics.discarded.Add(float64(d.account.Held()))
	if err := d.entry.Reset(); err != nil {
		d.log.Error("the cache could not be emptied", "error", err)
	}
	d.account.Restart(from)
	d.entry.ShrinkTo(0)
	d.end, d.begin = nil, nil
	d.mu.Unlock()
	d.update(func() {})
	return true
}

// All functions below are called with d.mu held.

// Why a delivery begins again.
const (
	discarded = "discarded" // the cache has given back what a child needs
	elsewhere = "elsewhere" // children are not where it began: they have something, or lack what others had
)

func (d *delivery) causeToBegin(from uint64) string {
	if d.account.Lost(from) {
		return discarded
	}
	return elsewhere
}

// reading reports whether some child's bytes are being read from the file.
func (d *delivery) reading() bool {
	for _, c := range d.children {
		if len(c.reads) > 0 {
			return true
		}
	}
	return false
}
