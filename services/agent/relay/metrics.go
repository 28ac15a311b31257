package relay

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/groupcast/groupcast/internal/datagram"
	"github.com/groupcast/groupcast/internal/link"
)

// Metrics count what a hub does.
type Metrics struct {
	received, sent, discarded, evicted, probes prometheus.Counter
	restarts, refused, tuned                   *prometheus.CounterVec

	datagramsReceived, datagramsRecovered, datagramsSent, datagramsHeld, datagramsRefused, breakerTrips prometheus.Counter
	datagramsReceivedBytes, datagramsSentBytes                                                          prometheus.Counter
}

// NewMetrics returns metrics of an agent.
func NewMetrics() *Metrics {
	count := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "groupcast_agent_" + name + "_total", Help: help})
	}
	m := &Metrics{
		received:  count("received_bytes", "Bytes of deliveries that came from parents, streams in datagrams apart."),
		sent:      count("sent_bytes", "Bytes of deliveries that were sent to children, streams in datagrams apart."),
		discarded: count("discarded_bytes", "Bytes of deliveries that left the cache. With what the cache holds they are those that were received."),
		evicted:   count("evicted_children", "Children given up as too slow."),
		probes:    count("probes", "Connections to the data port that were closed without a word, as nodes do that measure their round trips, and agents that were not asked for more."),
		restarts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "groupcast_agent_restarts_total", Help: "Deliveries begun again from another offset, by cause: a child needed what the cache had discarded, or children are elsewhere, as those that have a part of it.",
		}, []string{"cause"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "groupcast_agent_refused_links_total", Help: "Links that were refused or broken for cause, by reason.",
		}, []string{"reason"}),
		tuned: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "groupcast_agent_stripe_choices_total", Help: "Choices of a link's number of stripes, by reason.",
		}, []string{"reason"}),
		datagramsReceived:      count("datagrams_received", "Datagrams that came from parents, parity among them."),
		datagramsRecovered:     count("datagrams_recovered", "Datagrams that were lost and computed from parity."),
		datagramsSent:          count("datagrams_sent", "Datagrams that were sent to children, parity among them."),
		datagramsHeld:          count("datagrams_held", "Datagrams that were not sent to a child, for its link's rate did not allow it, or it was not known where to."),
		datagramsRefused:       count("datagrams_refused", "Datagrams that belong to no link, were not sealed by the neighbour, or came again."),
		datagramsReceivedBytes: count("datagrams_received_bytes", "Bytes of streams that came from parents in datagrams, parity among them."),
		datagramsSentBytes:     count("datagrams_sent_bytes", "Bytes of streams that were sent to children in datagrams, parity among them."),
		breakerTrips:           count("circuit_breaker_trips", "Links that were stopped for a while, for too much was lost for too long."),
	}
	for _, cause := range []string{discarded, elsewhere} {
		m.restarts.WithLabelValues(cause)
	}
	for _, reason := range []string{link.Crowded, link.Handshake} { // a rate can be taken before the first
		m.refused.WithLabelValues(reason)
	}
	return m
}

// turnAway counts a link that was not opened.
func (m *Metrics) turnAway(reason string) {
	if reason == link.Probe {
		m.probes.Inc()
		return
	}
	m.refused.WithLabelValues(reason).Inc()
}

// used counts what a link to a child was used for since it was last counted.
func (m *Metrics) used(use, before datagram.Use) {
	m.datagramsSent.Add(float64(use.Sent - before.Sent))
	m.datagramsSentBytes.Add(float64(use.Bytes - before.Bytes))
	m.datagramsHeld.Add(float64(use.Held - before.Held))
	m.breakerTrips.Add(float64(use.Trips - before.Trips))
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{
		m.received, m.sent, m.discarded, m.restarts, m.evicted, m.probes, m.refused, m.tuned,
		m.datagramsReceived, m.datagramsRecovered, m.datagramsSent, m.datagramsHeld, m.datagramsRefused, m.breakerTrips,
		m.datagramsReceivedBytes, m.datagramsSentBytes,
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, metric := range m.all() {
		metric.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, metric := range m.all() {
		metric.Collect(to)
	}
}
