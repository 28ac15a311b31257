package simnet

import "fmt"

// Count says what became of the stream bytes, and the datagrams, of one direction of a link.
type Count struct {
	Offered   int64 // taken by Write
	Delivered int64 // handed out by Read
	Lost      int64 // to resets, kills and closes

	Datagrams, DatagramsDelivered, DatagramsLost int64
}

// Count returns what one direction has carried so far.
func (n *Network) Count(from, to string) Count {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.way(n.host(from), n.host(to)).count
}

// Conserved returns an error unless each byte offered was delivered, was lost, or is in a buffer or on the way.
func (n *Network) Conserved() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	held := make(map[*way]int64)
	for f := range n.open {
		held[f.way] += f.written - f.read
	}
	for _, w := range n.sortedWays() {
		if c := w.count; c.Offered != c.Delivered+c.Lost+held[w] {
			return fmt.Errorf("%s: %d bytes offered, but %d delivered, %d lost and %d held", w.name(), c.Offered, c.Delivered, c.Lost, held[w])
		}
	}
	return nil
}
