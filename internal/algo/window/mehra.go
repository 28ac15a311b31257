package window

import "time"

// mehra is 001's reference 2 as 001 §2.1 has it: "They consider the packet receiving rate at the
// user host as the access link bandwidth, and set the receive socket buffer size for TCP
// connections to differentiate their throughput values by using pre-defined parameters such as
// priority, minimal rate and weight." All connections are treated alike, short or long. Priority
// and minimal rate are the policy's, the weight is the target.
type mehra struct {
	link Rate // the receiving rate, smoothed
}

const (
	// mehraSmooth is how much of the last step's rate counts.
	mehraSmooth = .5
	// mehraMore is how many times the receiving rate is divided: if it were one, the rate could never
	// grow.
	mehraMore = 1.1
	// mehraStep is the part of the difference by which a window is changed.
	mehraStep = .5
	// mehraMost is how many times what its rate needs a window may be: one that is not what holds its
	// connection back would grow for ever.
	mehraMost = 2
)

func (*mehra) First() int { return 0 }

func (m *mehra) Step(_ time.Time, facts Facts) Decision {
	facts = sane(facts)
	decision := begin(facts)
	m.measure(facts)
	claims := make([]claim, len(facts.Clients))
	for i, c := range facts.Clients {
		if len(c.Connections) > 0 {
			claims[i] = claim{target: c.Minimum, minimum: c.Minimum, limit: mostRate, weight: max(1, float64(c.Target)), priority: c.Priority}
		}
	}
	rates, rule := divide(mehraMore*m.link, claims)
	for i, c := range facts.Clients {
		share := &decision.Shares[i]
		share.Rate, share.Reason, share.Bottleneck = rates[i], rule, None
		for j, one := range c.Connections {
			bytes := m.adjust(one, rates[i]/Rate(len(c.Connections)))
			share.Windows[j] = Window{ID: one.ID, Bytes: bytes, State: Persistent}
			decision.Budget += bytes
		}
	}
	decision.Available = m.link
	return decision
}

func (m *mehra) measure(facts Facts) {
	sum := Rate(0)
	for _, c := range facts.Clients {
		sum += c.Throughput
	}
	if m.link == 0 {
		m.link = sum
	}
	m.link += mehraSmooth * (sum - m.link)
}

// adjust moves a window towards what the connection should get: "adjusts the receive socket
// buffer according to the throughput of each TCP connection" (001 §4.2.3).
func (m *mehra) adjust(one Connection, rate Rate) int {
	enough := rate.bytes(orUsual(one.LeastRTT))
	if one.Window == 0 {
		return max(one.MSS, whole(enough))
	}
	missing := (rate - one.Throughput).bytes(orUsual(one.RTT))
	most := mehraMost*enough + 2*float64(one.MSS)
	return max(one.MSS, whole(min(float64(one.Window)+mehraStep*missing, most)))
}
