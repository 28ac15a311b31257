package fast

// Remembered is of how many blocks it is known what was sent again.
func (s *Sender) Remembered() int { return len(s.repair.blocks) }
