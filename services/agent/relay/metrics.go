package relay

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count what a hub does.
type Metrics struct {
	received, sent, discarded, restarts, evicted, probes prometheus.Counter
	refused, tuned                                       *prometheus.CounterVec
}

// NewMetrics returns metrics of an agent.
func NewMetrics() *Metrics {
	count := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "groupcast_agent_" + name + "_total", Help: help})
	}
	return &Metrics{
		received:  count("received_bytes", "Bytes of deliveries that came from parents."),
		sent:      count("sent_bytes", "Bytes of deliveries that were sent to children."),
		discarded: count("discarded_bytes", "Bytes of deliveries that left the cache. With what the cache holds they are those that were received."),
		restarts:  count("restarts", "Deliveries begun again from another offset: a child needed what the cache no longer had, or all had what was to come."),
		evicted:   count("evicted_children", "Children given up as too slow."),
		probes:    count("probes", "Connections to the data port that were closed without a word, as nodes do that measure their round trips."),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "groupcast_agent_refused_links_total", Help: "Links that were refused or broken for cause, by reason.",
		}, []string{"reason"}),
		tuned: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "groupcast_agent_stripe_choices_total", Help: "Choices of a link's number of stripes, by reason.",
		}, []string{"reason"}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, to) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, metric := range []prometheus.Collector{m.received, m.sent, m.discarded, m.restarts, m.evicted, m.probes, m.refused, m.tuned} {
		metric.Collect(to)
	}
}
