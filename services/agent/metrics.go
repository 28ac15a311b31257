package agent

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/groupcast/groupcast/services/agent/cache"
	"github.com/groupcast/groupcast/services/agent/relay"
)

func registerMetrics(to prometheus.Registerer, hub *relay.Hub, store *cache.Cache) {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "groupcast_agent_" + name, Help: help}, value)
	}
	to.MustRegister(
		hub.Metrics,
		gauge("cache_limit_bytes", "How much the cache holds at most.", func() float64 { return float64(store.Limit()) }),
		gauge("cache_reserved_bytes", "How much of the cache is taken or promised.", func() float64 { return float64(store.Reserved()) }),
		gauge("cache_held_bytes", "How much the cache holds.", func() float64 { return float64(hub.Held()) }),
		gauge("links", "Links to parents and children.", func() float64 { return float64(hub.Load().Links) }),
		gauge("stripes", "Connections that the links to children are to have, streams in datagrams apart.", func() float64 { return float64(hub.StripeCount()) }),
		gauge("credit_bytes", "How much parents may send that has not come yet.", func() float64 { return float64(hub.Credit()) }),
		gauge("deliveries", "Deliveries that this agent relays or keeps.", func() float64 { return float64(hub.Deliveries()) }),
	)
}
