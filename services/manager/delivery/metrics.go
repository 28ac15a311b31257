package delivery

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// Metrics count what desks decide. They outlive terms.
type Metrics struct {
	ended      *prometheus.CounterVec
	receipts   *prometheus.CounterVec
	trees      *prometheus.CounterVec
	directives prometheus.Counter
	// treesTooLarge counts changes of trees that had no room for all who came.
	treesTooLarge prometheus.Counter
	// The measurements of 000 §IV-B, observed when a delivery has ended. They have no label for the delivery: each would be a series of its
	// own.
	reception, links, caches, effective prometheus.Histogram
}

// NewMetrics returns metrics, each with all the series that it can have, so that a
// rate can be taken from the first event on.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "groupcast_manager_deliveries_ended_total", Help: "Deliveries that ended while this manager led, by state: complete, partial or failed.",
		}, []string{"state"}),
		receipts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "groupcast_manager_receipts_total", Help: "Members at which a delivery ended while this manager led, by state (complete, failed, unknown) and reason.",
		}, []string{"state", "reason"}),
		trees: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "groupcast_manager_tree_changes_total", Help: "Trees made or changed while this manager led, by cause.",
		}, []string{"cause"}),
		directives: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "groupcast_manager_directives_total", Help: "Directives sent to nodes of trees while this manager led: who feeds them, whom they feed, and that they are done.",
		}),
	}
	m.treesTooLarge = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "groupcast_manager_trees_too_large_total", Help: "Changes of trees that were more than the store takes at once, while this manager led: some who came are not taken in.",
	})
	bandwidths, ratios := prometheus.ExponentialBuckets(64<<10, 2, 16), prometheus.LinearBuckets(0.1, 0.1, 10)
	for _, h := range []struct {
		of         *prometheus.Histogram
		name, help string
		buckets    []float64
	}{
		{&m.reception, "reception_bytes_per_second", "Reception throughput of deliveries that ended while this manager led: that of the slowest member. Of those that are complete, and of which anything was sent.", bandwidths},
		{&m.links, "link_bytes_per_second", "Bandwidth that a link of a delivery's tree used, of those that ended while this manager led.", bandwidths},
		{&m.effective, "effective_throughput_ratio", "Reception throughput over the sender's rate, of deliveries that ended while this manager led: those that are complete, and of which anything was sent.", ratios},
		{&m.caches, "cache_ratio", "The most that an agent held of a delivery, over what was sent, of those that ended while this manager led.", ratios},
	} {
		*h.of = prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "groupcast_manager_delivery_" + h.name, Help: h.help, Buckets: h.buckets,
		})
		registry.MustRegister(*h.of)
	}
	for _, state := range []string{"complete", "partial", "failed"} {
		m.ended.WithLabelValues(state)
	}
	for _, reason := range reasons {
		m.receipts.WithLabelValues("failed", reason)
	}
	m.receipts.WithLabelValues("complete", "")
	m.receipts.WithLabelValues("unknown", "")
	for _, cause := range causes {
		m.trees.WithLabelValues(cause)
	}
	registry.MustRegister(m.ended, m.receipts, m.trees, m.directives, m.treesTooLarge)
	return m
}

func (m *Metrics) deliveryEnded(state groupv1.DeliveryState) {
	m.ended.WithLabelValues(map[groupv1.DeliveryState]string{
		groupv1.DeliveryState_DELIVERY_STATE_COMPLETE: "complete",
		groupv1.DeliveryState_DELIVERY_STATE_PARTIAL:  "partial",
		groupv1.DeliveryState_DELIVERY_STATE_FAILED:   "failed",
	}[state]).Inc()
}

func (m *Metrics) receipt(state groupv1.ReceiptState, reason string) {
	if !slices.Contains(reasons, reason) {
		reason = ""
	}
	m.receipts.WithLabelValues(map[groupv1.ReceiptState]string{
		groupv1.ReceiptState_RECEIPT_STATE_COMPLETE: "complete",
		groupv1.ReceiptState_RECEIPT_STATE_FAILED:   "failed",
		groupv1.ReceiptState_RECEIPT_STATE_UNKNOWN:  "unknown",
	}[state], reason).Inc()
}

// measured counts what was measured of a delivery, as far as there was something to measure: where all had it already, nothing.
func (m *Metrics) measured(of *groupv1.Measurements) {
	if of.GetReceptionBytesPerSecond() > 0 {
		m.reception.Observe(float64(of.GetReceptionBytesPerSecond()))
	}
	if of.GetReceptionBytesPerSecond() > 0 && of.GetSendBytesPerSecond() > 0 { // it is known, and was not 0
		m.effective.Observe(of.GetEffectiveThroughput())
	}
	for _, link := range of.GetLinks() {
		m.links.Observe(float64(link.GetBytesPerSecond()))
	}
	for _, cache := range of.GetCaches() {
		m.caches.Observe(cache.GetRatio())
	}
}

func (m *Metrics) treeChanged(cause string) { m.trees.WithLabelValues(cause).Inc() }
