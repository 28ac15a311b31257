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
	outOfOrder                                         prometheus.Counter
	took                                               prometheus.Histogram
	counted                                            map[string]uint64 // bytes of each client that are in received
	reordered                                          map[uint64]uint64 // segments of each connection that are in outOfOrder
	rate, target, below, connections, windows, clients *prometheus.GaugeVec
	available, budget, others, paused                  prometheus.Gauge
	roundTrip, round                                   prometheus.Histogram
}

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
		outOfOrder: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "groupcast_gatherer_out_of_order_segments_total", Help: "Segments that came before others that were sent before them: after a loss, or where a path mixes them.",
		}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "groupcast_gatherer_upload_seconds", Help: "How long uploads took that are finished, from when they were opened, or opened again.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 10), NativeHistogramBucketFactor: 1.1,
		}),
		counted: make(map[string]uint64), reordered: make(map[uint64]uint64),
		rate:        gauges("received_bytes_per_second", "What clients got in the controller's last round, by priority.", "priority"),
		target:      gauges("target_bytes_per_second", "What the clients that have something to send should get, by priority.", "priority"),
		below:       gauges("clients_below_target", "Clients that have something to send and got less than 95 % of their target in the last round, by priority.", "priority"),
		connections: gauges("connections", "Data connections, by the state that the controller has them in.", "state"),
		windows:     gauges("window_bytes", "The sum of the windows that connections are shown, by priority.", "priority"),
		clients:     gauges("clients", "Clients that are attached or have uploads open, by where they are held up.", "bottleneck"),
		available:   gauge("available_bytes_per_second", "What the link is thought to carry for clients; 0 is not known."),
		budget:      gauge("budget_bytes", "What all windows are cut from; 0 is no bound."),
		others:      gauge("other_bytes_per_second", "What else comes over the link, where an interface is named."),
		paused:      gauge("clients_paused", "Clients that are told to send nothing now."),
		roundTrip: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "groupcast_gatherer_round_trip_seconds", Help: "Round trips of data connections, as the kernel has them, once a round.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14), NativeHistogramBucketFactor: 1.1,
		}),
		round: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "groupcast_gatherer_round_seconds", Help: "How long a round of the controller took.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 12), NativeHistogramBucketFactor: 1.1,
		}),
	}
	for _, reason := range []string{link.Crowded, link.Handshake} { // a rate can be taken before the first
		m.refused.WithLabelValues(reason)
	}
	registry.MustRegister(m.refused, m.received, m.outOfOrder, m.took, m.rate, m.target, m.below, m.connections, m.windows, m.clients, m.available, m.budget, m.others, m.paused, m.roundTrip, m.round)
	return m
}

func (m *metrics) turnAway(reason string) { m.refused.WithLabelValues(reason).Inc() }

// finished notes how long an upload took.
func (m *metrics) finished(took time.Duration) { m.took.Observe(took.Seconds()) }

// count adds what has come since the last round.
func (m *metrics) count(facts window.Facts, clients []roster.Status) {
	before := m.counted
	m.counted = make(map[string]uint64, len(clients))
	for _, client := range clients {
		m.counted[client.Name] = client.Received
		m.received.WithLabelValues(strconv.Itoa(client.Share.Priority)).Add(float64(client.Received - min(before[client.Name], client.Received)))
	}
	seen := m.reordered
	m.reordered = make(map[uint64]uint64)
	for _, client := range facts.Clients {
		for _, one := range client.Connections {
			m.reordered[one.ID] = one.OutOfOrder
			m.outOfOrder.Add(float64(one.OutOfOrder - min(seen[one.ID], one.OutOfOrder)))
		}
	}
}

// nearly is how much of a target counts as all of it.
const nearly = 0.95

// note shows a round.
func (m *metrics) note(round controller.Round, clients []roster.Status) {
	for _, gauges := range []*prometheus.GaugeVec{m.rate, m.target, m.below, m.connections, m.windows, m.clients} {
		gauges.Reset()
	}
	m.count(round.Facts, clients)
	for i, client := range round.Facts.Clients {
		m.noteClient(client, round.Decision.Shares[i])
	}
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
	m.round.Observe(round.Took.Seconds())
}

func (m *metrics) noteClient(client window.Client, share window.Share) {
	priority := strconv.Itoa(client.Priority)
	m.rate.WithLabelValues(priority).Add(float64(client.Throughput))
	m.clients.WithLabelValues(string(share.Bottleneck)).Inc()
	below := 0.0
	if client.Active {
		m.target.WithLabelValues(priority).Add(float64(client.Target))
		if client.Throughput < nearly*client.Target {
			below = 1
		}
	}
	m.below.WithLabelValues(priority).Add(below)
	for i, connection := range client.Connections {
		m.connections.WithLabelValues(string(share.Windows[i].State)).Inc()
		m.windows.WithLabelValues(priority).Add(float64(share.Windows[i].Bytes))
		if connection.RTT > 0 {
			m.roundTrip.Observe(connection.RTT.Seconds())
		}
	}
}
