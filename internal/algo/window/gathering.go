package window

import (
	"cmp"
	"time"

	"github.com/groupcast/groupcast/internal/algo/parallel"
)

// gathering is paper 003 to the letter: buffers by §III-A every step, and the number of
// connections by §III-B where it has searches.
type gathering struct {
	budget   int
	searches map[string]*parallel.Search // by client; nil is buffers alone
}

func newGathering(options Options, searches map[string]*parallel.Search) Controller {
	return &gathering{budget: options.buffer(), searches: searches}
}

func (g *gathering) First() int { return 0 }

func (g *gathering) Step(_ time.Time, facts Facts) Decision {
	facts = sane(facts)
	decision := begin(facts)
	decision.Budget = g.budget
	if facts.Link.Memory > 0 {
		decision.Budget = min(g.budget, facts.Link.Memory)
	}
	demands := make([]Demand, len(facts.Clients))
	for i, c := range facts.Clients {
		if c.Active {
			demands[i] = Demand{Target: c.Target, RTT: c.rtt(), Priority: c.Priority}
		}
	}
	windows, rule := Assign(float64(decision.Budget), demands)
	for i, c := range facts.Clients {
		share := &decision.Shares[i]
		share.Reason, share.Bottleneck, share.Rate = rule, None, Rate(windows[i]/c.rtt().Seconds())
		if !c.Active {
			share.Reason = Inactive
		}
		c.windows(share, windows[i], 0)
		share.Connections = g.connections(c, windows[i])
	}
	g.forget(facts)
	return decision
}

// connections is the number that §III-B finds; one where only buffers are tuned.
func (g *gathering) connections(c Client, bytes float64) int {
	if g.searches == nil {
		return 1
	}
	search := g.searches[c.Name]
	if search == nil {
		search = parallel.NewSearch(len(c.Connections))
		g.searches[c.Name] = search
	}
	if !c.Active {
		return min(search.Connections(), cmp.Or(c.MaxConnections, parallel.Most))
	}
	return search.Step(parallel.Seen{
		Target: float64(c.Target), Throughput: float64(c.Throughput), Window: bytes, RTT: c.rtt(), Most: c.MaxConnections,
	})
}

// forget drops what is known of clients that have gone.
func (g *gathering) forget(facts Facts) {
	if len(g.searches) <= len(facts.Clients) {
		return
	}
	here := make(map[string]bool, len(facts.Clients))
	for _, c := range facts.Clients {
		here[c.Name] = true
	}
	for name := range g.searches {
		if !here[name] {
			delete(g.searches, name)
		}
	}
}
