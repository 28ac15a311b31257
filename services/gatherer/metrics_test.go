package gatherer_test

import (
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/groupcast/groupcast/internal/algo/window"
	"github.com/groupcast/groupcast/services/gatherer"
	"github.com/groupcast/groupcast/services/gatherer/controller"
)

// values returns what a metric's samples are, by their one label.
func values(t *testing.T, registry *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			label := ""
			for _, pair := range metric.GetLabel() {
				label = pair.GetValue()
			}
			all[label] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue() + metric.GetHistogram().GetSampleSum()
		}
	}
	return all
}

// round is one in which these clients were seen.
func round(clients ...window.Client) controller.Round {
	shares := make([]window.Share, len(clients))
	for i, client := range clients {
		shares[i].Windows = make([]window.Window, len(client.Connections))
	}
	return controller.Round{Facts: window.Facts{Clients: clients}, Decision: window.Decision{Shares: shares}}
}

// A client that has nothing to send, or no target, says nothing of whether targets are met fairly. One that gets more than its
// target is as satisfied as one that gets just that. When nobody sends, nothing is said.
func TestFairnessIsOfThoseThatSend(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics := gatherer.NewMetrics(registry)
	wants := func(satisfaction, throughput float64) {
		t.Helper()
		got := values(t, registry, "groupcast_gatherer_fairness")
		if math.Abs(got["satisfaction"]-satisfaction) > 1e-9 || math.Abs(got["throughput"]-throughput) > 1e-9 {
			t.Errorf("fairness %v, want satisfaction %g, throughput %g", got, satisfaction, throughput)
		}
	}
	metrics.Note(round(
		window.Client{Name: "a", Active: true, Target: 100, Throughput: 100},
		window.Client{Name: "b", Active: true, Target: 200, Throughput: 300},
		window.Client{Name: "idle", Target: 100},
	))
	wants(1, 400.*400/(2*(100*100+300*300)))
	metrics.Note(round(
		window.Client{Name: "a", Active: true, Target: 100, Throughput: 100},
		window.Client{Name: "b", Active: true, Target: 200, Throughput: 0},
		window.Client{Name: "free", Active: true, Throughput: 100},
	))
	wants(.5, 2./3)
	followed := round(
		window.Client{Name: "a", Active: true, Target: 100, Throughput: 100},
		window.Client{Name: "log", Active: true, Target: 200, Throughput: 1},
	)
	followed.Decision.Shares[1].Bottleneck = window.AtClient
	metrics.Note(followed)
	wants(1, 1)
	metrics.Note(round(window.Client{Name: "a", Target: 100}))
	if got := values(t, registry, "groupcast_gatherer_fairness"); len(got) != 0 {
		t.Errorf("with nobody to send, fairness %v", got)
	}
}

// A client that is open and sends less than it may, as a log that is followed, misses nothing; one that is kept from its target does.
func TestOnlyThoseThatSendAreBelowTheirTargets(t *testing.T) {
	registry := prometheus.NewRegistry()
	seen := round(
		window.Client{Name: "log", Active: true, Target: 200, Throughput: 1},
		window.Client{Name: "slow", Active: true, Target: 100, Throughput: 50},
		window.Client{Name: "fast", Active: true, Target: 100, Throughput: 120},
	)
	for i, bottleneck := range []window.Bottleneck{window.AtClient, window.Elsewhere, window.None} {
		seen.Decision.Shares[i].Bottleneck = bottleneck
	}
	gatherer.NewMetrics(registry).Note(seen)
	for name, want := range map[string]float64{"clients_below_target": 1, "target_bytes_per_second": 200, "received_bytes_per_second": 171} {
		if got := values(t, registry, "groupcast_gatherer_"+name)["0"]; got != want {
			t.Errorf("%s: %g, want %g", name, got, want)
		}
	}
}

// How long connections took to be let in is added up.
func TestEstablishmentIsCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics := gatherer.NewMetrics(registry)
	metrics.Establish(20 * time.Millisecond)
	metrics.Establish(30 * time.Millisecond)
	if got := values(t, registry, "groupcast_gatherer_establishment_seconds")[""]; math.Abs(got-.05) > 1e-9 {
		t.Errorf("%g s together, want 0.05", got)
	}
}

// Segments are counted once, also those of connections that come and go; those that came out of order are a part of them.
func TestSegmentsAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics := gatherer.NewMetrics(registry)
	uploads := func(connections ...window.Connection) window.Client {
		return window.Client{Name: "a", Active: true, Connections: connections}
	}
	metrics.Note(round(uploads(window.Connection{ID: 1, Segments: 100, OutOfOrder: 2})))
	metrics.Note(round(uploads(window.Connection{ID: 1, Segments: 150, OutOfOrder: 5}, window.Connection{ID: 2, Segments: 10})))
	metrics.Note(round(uploads(window.Connection{ID: 2, Segments: 30, OutOfOrder: 1})))
	for name, want := range map[string]float64{"segments": 180, "out_of_order_segments": 6} {
		if got := values(t, registry, "groupcast_gatherer_"+name+"_total")[""]; got != want {
			t.Errorf("%g %s, want %g", got, name, want)
		}
	}
}

// The queue that the controller sees is shown.
func TestQueueIsShown(t *testing.T) {
	registry := prometheus.NewRegistry()
	seen := round()
	seen.Decision.Queue = 40 * time.Millisecond
	gatherer.NewMetrics(registry).Note(seen)
	if got := values(t, registry, "groupcast_gatherer_queue_seconds")[""]; got != .04 {
		t.Errorf("a queue of %g s, want 0.04", got)
	}
}
