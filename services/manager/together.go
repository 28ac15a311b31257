package manager

import "github.com/prometheus/client_golang/prometheus"

// together is several gauges whose values one look finds out. The look may go over all that there is, and is taken once for each scrape.
type together struct {
	gauges []*prometheus.Desc
	look   func() []float64 // the value of each, in their order
}

type gaugeName struct{ name, help string }

func newTogether(look func() []float64, gauges []gaugeName) together {
	t := together{look: look}
	for _, gauge := range gauges {
		t.gauges = append(t.gauges, prometheus.NewDesc(gauge.name, gauge.help, nil, nil))
	}
	return t
}

// Describe implements prometheus.Collector.
func (t together) Describe(to chan<- *prometheus.Desc) {
	for _, gauge := range t.gauges {
		to <- gauge
	}
}

// Collect implements prometheus.Collector.
func (t together) Collect(to chan<- prometheus.Metric) {
	for i, value := range t.look() {
		to <- prometheus.MustNewConstMetric(t.gauges[i], prometheus.GaugeValue, value)
	}
}
