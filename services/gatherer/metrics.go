package gatherer

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/groupcast/groupcast/internal/algo/window"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/services/gatherer/controller"
	"github.com/groupcast/groupcast/services/gatherer/roster"
)

// metrics show what clients get beside what they should, by priority, the windows, the connections, the
// round trips, and what the link is thought to carry.
type metrics struct {
	refused, received                                  *prometheus.CounterVec
	segments, outOfOrder                               prometheus.Counter
	took, established                                  prometheus.Histogram
	counted                                            map[string]uint64   // bytes of each client that received has
	came                                               map[uint64]segments // of each connection, that segments and outOfOrder have
	rate, target, below, connections, windows, clients *prometheus.GaugeVec
	fairness                                           *prometheus.GaugeVec
	available, budget, others, queue, paused           prometheus.Gauge
	roundTrip, round                                   prometheus.Histogram
	shown                                              sums
}

// segments is how many have come.
type segments struct{ all, outOfOrder uint64 }

func newMetrics(registry prometheus.Registerer) *metrics {
	gauges := func(name, help string, label string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "groupcast_gatherer_" + name, Help: help}, []string{label})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "groupcast_gatherer_" + name, Help: help})
	}
	m := &metrics{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "groupcast_gatherer_refused_links_total", Help: "Data connections that were not opened, by reason.",
		}, []string{"reason"}),
		received: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "groupcast_gatherer_received_bytes_total", Help: "What came of clients over their data connections, by priority.",
		}, []string{"priority"}),
		segments: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "groupcast_gatherer_segments_total", Help: "Segments with data that came of clients over their data connections, of which some were out of order.",
		}),
		outOfOrder: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "groupcast_gatherer_out_of_order_segments_total", Help: "Segments that came before others that were sent before them: after a loss, or where a path mixes them.",
		}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "groupcast_gatherer_upload_seconds", Help: "How long uploads took that are finished, from when they were opened, or opened again.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 20),
		}),
		established: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "groupcast_gatherer_establishment_seconds", Help: "How long data connections took from when they were accepted until they were let in: the handshake of TLS, and who they are. The handshake of TCP, a round trip, comes before.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}),
		counted: make(map[string]uint64), came: make(map[uint64]segments),
		rate:        gauges("received_bytes_per_second", "What clients got in the controller's last round, by priority.", "priority"),
		target:      gauges("target_bytes_per_second", "What the clients that have something to send should get, by priority. One that sends less than it may has nothing more to send.", "priority"),
		below:       gauges("clients_below_target", "Clients that have something to send and got less than 95 % of their target in the last round, by priority.", "priority"),
		connections: gauges("connections", "Data connections, by the state that the controller has them in.", "state"),
		windows:     gauges("window_bytes", "The sum of the windows that connections are shown, by priority.", "priority"),
		clients:     gauges("clients", "Clients that are attached or have uploads open, by where they are held up.", "bottleneck"),
		fairness:    gauges("fairness", "Jain's index over clients that have something to send, of what they got in the last round (throughput), and of the part of their targets that they got, 1 at most (satisfaction): 1 is the same for all, 1/n all for one of n, 0 nothing for all.", "of"),
		available:   gauge("available_bytes_per_second", "What the link is thought to carry for clients; 0 is not known."),
		budget:      gauge("budget_bytes", "What all windows are together, or what they are cut from where the controller divides a buffer; 0 is no bound."),
		others:      gauge("other_bytes_per_second", "What else comes over the link, where an interface is named: other transfers, the headers of uploads, and what of them is sent again."),
		queue:       gauge("queue_seconds", "How long what comes is thought to wait before the link that all share; 0 is no queue, or a controller that does not say."),
		paused:      gauge("clients_paused", "Clients that are told to send nothing now."),
		roundTrip: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "groupcast_gatherer_round_trip_seconds", Help: "Round trips of data connections, as the kernel has them, once a round.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}),
		round: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "groupcast_gatherer_round_seconds", Help: "How long a round of the controller took, with what is shown of it.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 12),
		}),
	}
	for _, reason := range []string{link.Crowded, link.Handshake} { // a counter that is there from the start has a rate at the first one
		m.refused.WithLabelValues(reason)
	}
	registry.MustRegister(m.refused, m.received, m.segments, m.outOfOrder, m.took, m.established, m.fairness, m.rate, m.target, m.below, m.connections, m.windows, m.clients, m.available, m.budget, m.others, m.queue, m.paused, m.roundTrip, m.round)
	return m
}

func (m *metrics) turnAway(reason string) { m.refused.WithLabelValues(reason).Inc() }

// finished notes how long an upload took.
func (m *metrics) finished(took time.Duration) { m.took.Observe(took.Seconds()) }

// establish notes how long a data connection took until it was let in.
func (m *metrics) establish(took time.Duration) { m.established.Observe(took.Seconds()) }

// count adds what has come since the last round.
func (m *metrics) count(facts window.Facts, clients []roster.Status) {
	before := m.counted
	m.counted = make(map[string]uint64, len(clients))
	for _, client := range clients {
		m.counted[client.Name] = client.Received
		m.received.WithLabelValues(strconv.Itoa(client.Share.Priority)).Add(float64(client.Received - min(before[client.Name], client.Received)))
	}
	seen := m.came
	m.came = make(map[uint64]segments)
	for _, client := range facts.Clients {
		for _, one := range client.Connections {
			m.came[one.ID] = segments{one.Segments, one.OutOfOrder}
			m.segments.Add(float64(one.Segments - min(seen[one.ID].all, one.Segments)))
			m.outOfOrder.Add(float64(one.OutOfOrder - min(seen[one.ID].outOfOrder, one.OutOfOrder)))
		}
	}
}

// nearly is the part of a target that counts as all of it.
const nearly = 0.95

// note shows a round.
func (m *metrics) note(round controller.Round, clients []roster.Status) {
	m.count(round.Facts, clients)
	next := make(sums)
	for i, client := range round.Facts.Clients {
		m.noteClient(next, client, round.Decision.Shares[i])
	}
	m.noteFairness(next, round)
	m.shown.give(next)
	m.shown = next
	paused := 0
	for _, client := range clients {
		if client.Paused != "" {
			paused++
		}
	}
	m.paused.Set(float64(paused))
	m.available.Set(float64(round.Available))
	m.budget.Set(float64(round.Decision.Budget))
	m.others.Set(float64(round.Facts.Link.Others))
	m.queue.Set(round.Decision.Queue.Seconds())
	m.round.Observe(time.Since(round.At).Seconds())
}

// sums are what gauges are to show, by their label.
type sums map[*prometheus.GaugeVec]map[string]float64

func (s sums) add(to *prometheus.GaugeVec, label string, value float64) {
	if s[to] == nil {
		s[to] = make(map[string]float64)
	}
	s[to][label] += value
}

// give sets a gauge's values, and then removes labels that are gone: a scrape in between must not find it empty.
func (s sums) give(next sums) {
	for gauges, values := range next {
		for label, value := range values {
			gauges.WithLabelValues(label).Set(value)
		}
	}
	for gauges, values := range s {
		for label := range values {
			if _, goesOn := next[gauges][label]; !goesOn {
				gauges.DeleteLabelValues(label)
			}
		}
	}
}

// sends reports whether a client has something to send. One that leaves its windows unused has nothing more: an upload that is open says
// little, as of a log that is followed.
func sends(client window.Client, share window.Share) bool {
	return client.Active && share.Bottleneck != window.AtClient
}

// noteFairness compares what those clients get that have something to send.
func (m *metrics) noteFairness(shown sums, round controller.Round) {
	var rates, parts []float64
	for i, client := range round.Facts.Clients {
		if !sends(client, round.Decision.Shares[i]) {
			continue
		}
		rates = append(rates, float64(client.Throughput))
		if client.Target > 0 {
			parts = append(parts, min(1, float64(client.Throughput/client.Target)))
		}
	}
	for of, shares := range map[string][]float64{"throughput": rates, "satisfaction": parts} {
		if len(shares) > 0 {
			shown.add(m.fairness, of, window.Fairness(shares))
		}
	}
}

func (m *metrics) noteClient(shown sums, client window.Client, share window.Share) {
	priority := strconv.Itoa(client.Priority)
	shown.add(m.rate, priority, float64(client.Throughput))
	shown.add(m.clients, string(share.Bottleneck), 1)
	below := 0.0
	if sends(client, share) {
		shown.add(m.target, priority, float64(client.Target))
		if client.Throughput < nearly*client.Target {
			below = 1
		}
	}
	shown.add(m.below, priority, below)
	for i, connection := range client.Connections {
		shown.add(m.connections, string(share.Windows[i].State), 1)
		shown.add(m.windows, priority, float64(share.Windows[i].Bytes))
		if connection.RTT > 0 {
			m.roundTrip.Observe(connection.RTT.Seconds())
		}
	}
}
