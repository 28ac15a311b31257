package survey

import "github.com/prometheus/client_golang/prometheus"

// Why a round trip is not believed.
const (
	unasked    = "unasked"
	impossible = "impossible"
)

// Metrics count what surveys do not believe. They outlive terms.
type Metrics struct{ refused *prometheus.CounterVec }

// NewMetrics returns metrics with all the series that they can have.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{refused: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "groupcast_manager_round_trips_refused_total", Help: "Round trips that were reported and not believed, by reason: nobody had asked, or it cannot be.",
	}, []string{"reason"})}
	for _, reason := range []string{unasked, impossible} {
		m.refused.WithLabelValues(reason)
	}
	registry.MustRegister(m.refused)
	return m
}

func (m *Metrics) refuse(reason string) { m.refused.WithLabelValues(reason).Inc() }
