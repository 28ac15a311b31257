package relay

// SetStreamWindow has so much of a stream be cached at most.
func (h *Hub) SetStreamWindow(bytes uint64) { h.streamWindow = bytes }
