package pulse

// Count has a watch go by a count of what its disk does for others.
func (w *Watch) Count(activity func() uint64) {
	w.activityOf = func(Disk) uint64 { return activity() }
	w.On(Disk{})
}
