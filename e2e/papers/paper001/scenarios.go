package paper001

import (
	"fmt"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/traffic"
)

// The scenarios of 001 §4.1 and §5.2. Values that the text does not give are our choice, and are named in the scenario's about.

const ms = time.Millisecond

// at returns a time of the thesis.
func at(seconds int) time.Duration { return time.Duration(seconds) * time.Second }

// bulks returns long uploads from the beginning to the end; the first is the nearest, and each is a step farther away.
func bulks(nearest, step time.Duration, until time.Duration, names ...string) (all []bulk) {
	for i, name := range names {
		all = append(all, bulk{name: name, group: name, delay: nearest + time.Duration(i)*step, until: until})
	}
	return all
}

// first is scenario 1: the ideal case.
func first() scenario {
	return scenario{
		about:  "Figure 4: A, B and C, 35, 45 and 55 ms away; D, 10 ms away.",
		access: accessRate, buffer: routerBuffer, until: simulated,
		long:  bulks(35*ms, 10*ms, simulated, "A", "B", "C"),
		short: shorts{name: "D", delay: 10 * ms, idle: idleShorts, from: shortStart, count: shortFit},
	}
}

const (
	idleShorts = 10
	// shortFit is how many short uploads fit before the end, at one every 5 s on average: the
	// thesis's 100 would last until 600 s.
	shortFit = 75
)

// second is scenario 2: D is 255 ms away, and the buffer small.
func second() scenario {
	s := first()
	s.about = "Figure 5: as figure 4, with D 255 ms away and a buffer of 32 KB."
	s.buffer, s.short.delay, s.short.idle = 32*link.KiB, 255*ms, 3
	return s
}

// third is scenario 3: six long uploads.
func third() scenario {
	s := first()
	s.about = "Figure 6: A to F, 35 to 85 ms away; G, 95 ms away, has the short uploads."
	s.long = bulks(35*ms, 10*ms, simulated, "A", "B", "C", "D", "E", "F")
	s.short.name, s.short.delay, s.short.idle = "G", 95*ms, 3
	return s
}

const streamed = 850 * time.Second

// fourth is scenario 4: UDP to the receiver, at 1, 2 and 3 Mbit/s. It lasts 50 s longer, so that both ends of UDP are seen.
func fourth() scenario {
	period := func(from, until int, rate link.Rate) traffic.Period {
		return traffic.Period{From: at(from), Until: at(until), Rate: rate}
	}
	return scenario{
		about:  "Figure 7: as figure 4, and E sends UDP to the receiver, which the gatherer is not told of. The run is 50 s of the thesis's longer, to see the second end of UDP.",
		access: accessRate, buffer: routerBuffer, until: streamed,
		long:  bulks(35*ms, 10*ms, streamed, "A", "B", "C"),
		short: shorts{name: "D", delay: 10 * ms, idle: 3, from: at(400), count: 30},
		udp: []broadcast{{name: "e", schedule: []traffic.Period{
			period(50, 150, 1*link.Mbit), period(150, 250, 2*link.Mbit), period(250, 350, 3*link.Mbit),
			period(500, 600, 1*link.Mbit), period(600, 700, 2*link.Mbit), period(700, 800, 3*link.Mbit),
		}}},
	}
}

// ends are the times at which UDP ends in scenario 4; freed is the rate that it frees.
var ends = []time.Duration{at(350), at(800)}

const freed = 3 * link.Mbit

// fifth is scenario 5: the bottleneck moves to a link on A's way.
func fifth() scenario {
	const until = 600 * time.Second
	return scenario{
		about: `Figure 14: A and B, both 35 ms away; link C, on A's way alone, carries 4 Mbit/s, and UDP at 3.5 Mbit/s shares it from 100 to 500 s. Link C's rate, which the text does not
give, follows from A's 500 Kbit/s; its buffer and the access link's are 128 KB.`,
		access: accessRate, buffer: routerBuffer, until: until,
		routers: []link.Shape{{Rate: accessRate, Queue: link.Size(routerBuffer)}},
		long: []bulk{
			{name: "A", group: "A", delay: 35 * ms, router: 1, until: until}, {name: "B", group: "B", delay: 35 * ms, until: until},
		},
		udp: []broadcast{{name: "udp", router: 1, past: true, schedule: []traffic.Period{{From: at(100), Until: at(500), Rate: 3500 * link.Kbit}}}},
		best: []phase{
			{0, at(100), map[string]link.Rate{"A": 2 * link.Mbit, "B": 2 * link.Mbit}},
			{at(100), at(500), map[string]link.Rate{"A": 500 * link.Kbit, "B": 3500 * link.Kbit}},
			{at(500), until, map[string]link.Rate{"A": 2 * link.Mbit, "B": 2 * link.Mbit}},
		},
	}
}

// sixth is scenario 6: twenty senders in four groups, and a bottleneck that moves.
func sixth() scenario {
	const until, rate, udp = 1000 * time.Second, 20 * link.Mbit, 15 * link.Mbit
	s := scenario{
		about: `Figure 15: groups A to D of five senders each, 50, 70, 50 and 80 ms away; A and B come over link E, C and D over link F. The access link carries 20 Mbit/s; links E and F, of
which the text gives no rate, too, as groups are left 5 beside UDP at 15. All three have 128 KB of buffer. The text does not say how large the endhost's buffer is; here it bounds nothing.`,
		access: rate, buffer: routerBuffer, until: until,
		routers: []link.Shape{{Rate: rate, Queue: link.Size(routerBuffer)}, {Rate: rate, Queue: link.Size(routerBuffer)}},
		udp: []broadcast{
			{name: "udpe", router: 1, past: true, schedule: []traffic.Period{
				{From: at(200), Until: at(300), Rate: udp}, {From: at(500), Until: at(600), Rate: udp}, {From: at(800), Until: at(900), Rate: udp},
			}},
			{name: "udpf", router: 2, past: true, schedule: []traffic.Period{{From: at(300), Until: at(400), Rate: udp}, {From: at(900), Until: until, Rate: udp}}},
		},
	}
	for _, group := range []struct {
		name        string
		delay       time.Duration
		router      int
		from, until time.Duration
	}{{"A", 50 * ms, 1, 0, until}, {"B", 70 * ms, 1, at(400), until}, {"C", 50 * ms, 2, 0, at(400)}, {"D", 80 * ms, 2, at(700), until}} {
		for i := range 5 {
			s.long = append(s.long, bulk{fmt.Sprint(group.name, i), group.name, group.delay, group.router, group.from, group.until})
		}
	}
	best := func(from, until int, mbit map[string]float64) {
		groups := map[string]link.Rate{}
		for name, rate := range mbit {
			groups[name] = link.Rate(rate * float64(link.Mbit))
		}
		s.best = append(s.best, phase{at(from), at(until), groups})
	}
	best(0, 200, map[string]float64{"A": 10, "C": 10})
	best(200, 300, map[string]float64{"A": 5, "C": 15})
	best(300, 400, map[string]float64{"A": 15, "C": 5})
	best(400, 500, map[string]float64{"A": 10, "B": 10})
	best(500, 600, map[string]float64{"A": 2.5, "B": 2.5})
	best(600, 700, map[string]float64{"A": 10, "B": 10})
	best(700, 800, map[string]float64{"A": 20. / 3, "B": 20. / 3, "D": 20. / 3})
	best(800, 900, map[string]float64{"A": 2.5, "B": 2.5, "D": 15})
	best(900, 1000, map[string]float64{"A": 7.5, "B": 7.5, "D": 5})
	return s
}
