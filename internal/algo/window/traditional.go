package window

import "time"

// traditional touches nothing: windows are the kernel's, and a client has as many
// connections as it opens (001 §4.2: "the traditional scheme, which has no special control").
type traditional struct{}

func (traditional) First() int { return 0 }

func (traditional) Step(_ time.Time, facts Facts) Decision {
	decision := begin(facts)
	for i, client := range facts.Clients {
		share := &decision.Shares[i]
		share.Reason, share.Bottleneck = Untouched, None
		for j, connection := range client.Connections {
			share.Windows[j] = Window{ID: connection.ID, State: Persistent}
		}
	}
	return decision
}

// begin makes room for a decision about everybody in the facts.
func begin(facts Facts) Decision {
	total := 0
	for _, client := range facts.Clients {
		total += len(client.Connections)
	}
	windows := make([]Window, total)
	shares := make([]Share, len(facts.Clients))
	for i, client := range facts.Clients {
		n := len(client.Connections)
		shares[i] = Share{Name: client.Name, Windows: windows[:n:n]}
		windows = windows[n:]
	}
	return Decision{Shares: shares}
}
