package pulse

// Beats is how often it has beaten.
func (p *Pulse) Beats() uint64 { return p.beats.Load() }
