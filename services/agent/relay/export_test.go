package relay

// SetStreamWindow sets how much of a stream is cached at most.
func (h *Hub) SetStreamWindow(bytes uint64) { h.streamWindow = bytes }
