package manager

import (
	"crypto/x509"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/api"
	"github.com/groupcast/groupcast/services/manager/delivery"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/survey"
	"github.com/groupcast/groupcast/services/manager/view"
)

// registerLeading has a manager say whether it leads from its beginning on: it may wait for its CA and its store for as long as it likes, and
// somebody must hear that nobody leads. What it returns is told once it is known.
func registerLeading(registry prometheus.Registerer) *atomic.Pointer[leadership] {
	known := new(atomic.Pointer[leadership])
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "groupcast_manager_leading", Help: "1 while this manager leads."}, func() float64 {
		leading := known.Load()
		return truth(leading != nil && leading.Registry() != nil)
	}))
	return known
}

func registerMetrics(registry prometheus.Registerer, shown *view.View, leading *leadership, state *store.Store, server *api.Server, own identity.Source) {
	gauge := func(name, help string, value func() float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	together := func(look func() []float64, gauges ...gaugeName) { registry.MustRegister(newTogether(look, gauges)) }
	together(func() []float64 {
		c := shown.Count()
		return []float64{float64(c.Groups), float64(c.Members), float64(c.AgentsOnline), float64(c.AgentsOffline), float64(c.DeliveriesRunning)}
	},
		gaugeName{"groupcast_manager_groups", "Groups."},
		gaugeName{"groupcast_manager_members", "Members that are joined, over all groups."},
		gaugeName{"groupcast_manager_agents_online", "Agents that report."},
		gaugeName{"groupcast_manager_agents_offline", "Agents that are silent."},
		gaugeName{"groupcast_manager_deliveries_running", "Deliveries that run, over all groups."})
	together(func() []float64 {
		online, offline := server.CountManagers()
		return []float64{float64(online), float64(offline)}
	},
		gaugeName{"groupcast_manager_managers_online", "Managers of this store that are here."},
		gaugeName{"groupcast_manager_managers_offline", "Managers of this store that are missed."})
	together(func() []float64 {
		s := standing(leading)
		return []float64{float64(s.UnderWay), s.Effective}
	},
		gaugeName{"groupcast_manager_delivery_bytes_under_way", "Bytes that were sent in deliveries that run, and that members which were joined at the start do not have, for each of them; 0 unless this manager leads."},
		gaugeName{"groupcast_manager_delivery_least_effective_throughput_ratio", "Reception throughput over the sender's rate of the delivery that runs with the lowest; 1 without any, and unless this manager leads."})
	together(func() []float64 {
		c := surveyed(leading)
		return []float64{float64(c.RoundTrips), float64(c.Clusters)}
	},
		gaugeName{"groupcast_manager_round_trips", "Pairs of agents that have measured each other; 0 unless this manager leads."},
		gaugeName{"groupcast_manager_clusters", "Clusters of agents, given and found, at the default threshold; 0 unless this manager leads."})
	gauge("groupcast_manager_gatherers_silent", "Gatherers that have registered and are silent; 0 unless this manager leads.", func() float64 { return float64(server.Silent(identity.Gatherer)) })
	gauge("groupcast_manager_replicators_silent", "Replicators that have registered and are silent; 0 unless this manager leads.", func() float64 { return float64(server.Silent(identity.Replicator)) })
	gauge("groupcast_manager_services_absent", "Kinds of services, as agents, whose pods are to be here and of which none is; 0 unless this manager leads.", func() float64 { return float64(server.Absent()) })
	gauge("groupcast_manager_agents_expected", "1 where pods of agents are to be here, as every manager of the release knows.", func() float64 { return truth(server.Expects(identity.Agent)) })
	gauge("groupcast_manager_cut_off", "1 while most members, agents and replicators that this manager heard have fallen silent at once, so that it takes itself for cut off, and nobody for gone; 0 unless it leads.", func() float64 {
		registry := leading.Registry()
		return truth(registry != nil && registry.IsCutOff())
	})
	gauge("groupcast_manager_term", "The term of the manager that leads; 0 while none does.", func() float64 { return float64(leading.Leader().Term) })
	gauge("groupcast_manager_revision", "The revision of the state that this manager sees.", func() float64 { return float64(shown.Revision()) })
	certificate := func(moment func(*x509.Certificate) time.Time) func() float64 {
		return func() float64 {
			credentials, err := own.Credentials()
			if err != nil {
				return 0
			}
			return float64(moment(credentials.Certificate.Leaf).Unix())
		}
	}
	gauge("groupcast_manager_certificate_issued_timestamp_seconds", "Since when this manager's certificate is valid.", certificate(func(c *x509.Certificate) time.Time { return c.NotBefore }))
	gauge("groupcast_manager_certificate_expiry_timestamp_seconds", "Until when this manager's certificate is valid.", certificate(func(c *x509.Certificate) time.Time { return c.NotAfter }))
	gauge("groupcast_manager_read_only", "1 while the store, or this manager's disk, has no room: while this manager leads, writes are refused.", func() float64 { return truth(state.WriteRefusal() != nil) })
	gauge("groupcast_manager_large_writes_refused", "1 while the store has 90 % of what it may, or this manager's disk little room beside what small writes need: while this manager leads, large writes are refused, as deliveries to hundreds of members.",
		func() float64 { return truth(state.LargeWriteRefusal() != nil) })
}

func standing(leading *leadership) delivery.Standing {
	desk := leading.Desk()
	if desk == nil {
		return delivery.Standing{Effective: 1}
	}
	return desk.Standing()
}

func surveyed(leading *leadership) survey.Count {
	desk := leading.Desk()
	if desk == nil {
		return survey.Count{}
	}
	return desk.Survey().Count()
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
