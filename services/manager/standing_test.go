package manager_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/groupcast/groupcast/internal/daemon"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// Metrics tell how all running deliveries stand together.
func TestRunningDeliveriesAreMeasured(t *testing.T) {
	m, party := startParty(t)
	p := newPair(t, party)
	const underWay, least = "groupcast_manager_delivery_bytes_under_way", "groupcast_manager_delivery_least_effective_throughput_ratio"
	if got, ratio := gauge(t, m, underWay), gauge(t, m, least); got != 0 || ratio != 1 {
		t.Errorf("without deliveries %v bytes are under way, and the ratio is %v", got, ratio)
	}
	first, second := p.create(t, p.sender, file(megabyte)), p.create(t, p.sender, file(megabyte))
	for _, id := range []string{first, second} {
		p.sender.report(&groupv1.DeliveryReport{Delivery: id, Bytes: megabyte / 2})
		p.m1.report(&groupv1.DeliveryReport{Delivery: id, Bytes: megabyte / 2})
	}
	p.m2.report(&groupv1.DeliveryReport{Delivery: first, Bytes: megabyte / 2})
	p.m2.report(&groupv1.DeliveryReport{Delivery: second, Bytes: megabyte / 8})
	eventually(t, 30*time.Second, "what m2 lacks of the second is under way", func() bool { return gauge(t, m, underWay) == megabyte/2-megabyte/8 })
	if ratio := gauge(t, m, least); ratio < 0.2 || ratio > 0.3 {
		t.Errorf("the lowest effective throughput is %v, want that of the second, a quarter", ratio)
	}
	for _, id := range []string{first, second} {
		if _, err := p.deliveries.CancelDelivery(t.Context(), &groupv1.CancelDeliveryRequest{Delivery: id}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 30*time.Second, "nothing is under way", func() bool { return gauge(t, m, underWay) == 0 && gauge(t, m, least) == 1 })
}

// Gauges that belong together are found out by one look for each scrape.
func TestGaugesTogether(t *testing.T) {
	registry := prometheus.NewRegistry()
	looks := 0
	registry.MustRegister(manager.Together(func() []float64 {
		looks++
		return []float64{7, float64(looks)}
	}, "first", "second"))
	for scrape := 1; scrape <= 2; scrape++ {
		families, err := registry.Gather()
		if err != nil || len(families) != 2 {
			t.Fatalf("%v, %v", families, err)
		}
		if first, second := families[0].GetMetric()[0].GetGauge().GetValue(), families[1].GetMetric()[0].GetGauge().GetValue(); first != 7 || second != float64(scrape) {
			t.Errorf("scrape %d tells %v and %v, of %d looks", scrape, first, second, looks)
		}
	}
}

// A manager that waits for its store says that it does not lead: an alert asks for the most that any says, and there would be none.
func TestOneThatWaitsForItsStoreDoesNotLead(t *testing.T) {
	config := managertest.Config(t.TempDir())
	config.Store.Endpoints = []string{"http://127.0.0.1:1"}
	admin, err := daemon.ListenAdmin(config.CommonConfig.Admin)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	registry, ended := prometheus.NewRegistry(), make(chan error, 1)
	go func() {
		ended <- manager.Run(ctx, daemon.Env{Log: slog.New(slog.DiscardHandler), Metrics: registry, Admin: admin}, config)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	eventually(t, 5*time.Second, "it says that it does not lead", func() bool {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(families, func(of *dto.MetricFamily) bool {
			return of.GetName() == "groupcast_manager_leading" && of.GetMetric()[0].GetGauge().GetValue() == 0
		})
	})
	if len(ended) > 0 {
		t.Error("it has ended, and waited for nothing")
	}
}
