package window

// claimOn returns what a client claims of the memory: first of all what its least windows take, then by priority what its
// target takes, and the rest if there is any.
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

// leastWindow returns the size below which a connection's window is not cut, if that is possible.
func (c Connection) leastWindow(w Window) float64 {
	return min(float64(w.Bytes), float64(FloorSegments*c.MSS))
}

// fit adds the windows up, and makes them smaller if they are more than the memory: all keep their least, then what targets
// take goes by decreasing priority, and the rest is divided as it was. If not even the least windows fit, nobody is to have
// more than one connection.
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

// cut makes a client's windows smaller, so that together they are its part: each keeps its least, if that fits.
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

// newcomers is how many connections that come within one step the free memory should be enough for.
const newcomers = 64

// spare bounds the first window of connections by the free memory. A client that has sent nothing yet may still fill the window
// that it was shown when it came, whatever it is to have now.
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
	return min(first, max(free, FloorSegments*usualMSS))
}
