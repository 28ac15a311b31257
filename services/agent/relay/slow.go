package relay

import "time"

// ownPause is for how long no slow child was looked for when this agent itself stood still, because its machine was moved, or is too busy.
// What children have acknowledged meanwhile may not be read yet.
const ownPause = 4 * checkInterval

// evictSlow gives up the children that are too slow by the rule. It is called with d.mu held.
func (d *delivery) evictSlow() {
	now := time.Now()
	if !d.checked.IsZero() && now.Sub(d.checked) > ownPause {
		d.account.Pardon()
	}
	d.checked = now
	for _, name := range d.account.Slow(now) {
		d.log.Info("a child is too slow and is given up", "child", name, "offset", d.account.Offset())
		d.children[name].givenUp = tooSlow
		d.hub.Metrics.evicted.Inc()
		d.expectChildren()
		d.hub.Report()
	}
}
