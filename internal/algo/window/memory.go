package window

// claimOn is what a client claims of the memory: what its least windows take before all, what its target
// takes by priority, and the rest as there is.
func claimOn(share Share, c Client) claim {
	all, least := 0., 0.
	for j, w := range share.Windows {
		all += float64(w.Bytes)
		least += c.Connections[j].leastWindow(w)
	}
	target := all
	if share.Rate > c.Target {
		target = all * float64(c.Target/share.Rate)
	}
	target = max(target, least)
	return claim{target: Rate(target), minimum: Rate(least), limit: Rate(all), weight: all - target, priority: c.Priority}
}

// leastWindow is what a connection's window is cut to at most.
func (c Connection) leastWindow(w Window) float64 {
	return min(float64(w.Bytes), floorSegments*float64(min(c.MSS, usualMSS)))
}

// fit makes the windows smaller where they are more together than the memory, and adds them up: all keep
// their least, then what targets take goes by decreasing priority, and what is left to the others as they
// had it. Where not even the least windows fit, nobody is to have more than one connection.
func fit(decision *Decision, facts Facts) {
	sum, least := 0, 0.
	for i, share := range decision.Shares {
		for j, w := range share.Windows {
			sum += w.Bytes
			least += facts.Clients[i].Connections[j].leastWindow(w)
		}
	}
	decision.Budget = sum
	if facts.Link.Memory == 0 || sum <= facts.Link.Memory {
		return
	}
	claims := make([]claim, len(decision.Shares))
	for i, share := range decision.Shares {
		claims[i] = claimOn(share, facts.Clients[i])
	}
	parts, _ := divide(Rate(facts.Link.Memory), claims)
	decision.Budget, decision.Scarce = 0, true
	for i := range decision.Shares {
		share := &decision.Shares[i]
		share.cut(float64(parts[i]), claims[i], facts.Clients[i])
		if least > float64(facts.Link.Memory) {
			share.Connections = min(share.Connections, 1)
		}
		for _, w := range share.Windows {
			decision.Budget += w.Bytes
		}
	}
}

// cut makes a client's windows smaller, so that they are a part together: each keeps its least, if that fits.
func (s *Share) cut(part float64, c claim, client Client) {
	all, least := float64(c.limit), float64(c.minimum)
	for j := range s.Windows {
		w := &s.Windows[j]
		had, keeps := float64(w.Bytes), client.Connections[j].leastWindow(*w)
		switch {
		case part >= all:
		case part > least:
			w.Bytes = int(keeps + (had-keeps)*(part-least)/(all-least))
		default:
			w.Bytes = max(1, int(keeps*part/least))
		}
	}
}

// newcomers is how many connections that come within a step the memory that is free should be enough for.
const newcomers = 64

// spare bounds the first window of connections by what memory is free. Who sends nothing may still fill the window that
// it was shown when it came, whatever it is to have now.
func (g *groupcast) spare(first int, decision Decision, facts Facts) int {
	memory := facts.Link.Memory
	if memory == 0 {
		return first
	}
	held := 0
	for i, share := range decision.Shares {
		for j, w := range share.Windows {
			held += max(w.Bytes, facts.Clients[i].Connections[j].Offered)
		}
	}
	free := max(0, memory-held) / newcomers
	return min(first, max(free, floorSegments*usualMSS))
}
