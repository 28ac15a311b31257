package replicator

import (
	"github.com/prometheus/client_golang/prometheus"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// metrics show what the paper plots of a sender, its window and what it sends again and why,
// and what comes to receivers.
type metrics struct {
	tasks                                           *prometheus.GaugeVec
	window                                          *prometheus.GaugeVec
	offload                                         *prometheus.GaugeVec
	packets, repairs, polls, reports, wanted, trips prometheus.Counter
	timeouts                                        prometheus.Counter
	received, rebuilt, refused, spilled             prometheus.Counter
	replicas                                        *prometheus.CounterVec
	standing                                        prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) *metrics {
	count := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "groupcast_replicator_" + name + "_total", Help: help})
	}
	gauges := func(name, help, label string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "groupcast_replicator_" + name, Help: help}, []string{label})
	}
	m := &metrics{
		tasks:    gauges("tasks", "Replications under way here, by what is done in them: send or receive.", "duty"),
		window:   gauges("window_packets", "How many packets of all replications that are sent to a LAN may be on their way unanswered, by LAN.", "lan"),
		offload:  gauges("offload", "1 where the kernel takes or gives many packets at once: segment when sending, merge when receiving; of the last replication.", "kind"),
		packets:  count("sent_packets", "Packets with data, or that say where there is none, that were sent to LANs; those sent again among them."),
		repairs:  count("repair_packets", "Packets that were sent again, or with parity, for members that had not got all."),
		polls:    count("polls", "Questions to members about what they have."),
		reports:  count("reports", "Answers of members that were taken."),
		wanted:   count("wanted_packets", "Packets that members said they lacked of blocks of which they had a part: what the paper's NACKs ask for. Whole blocks are not counted."),
		timeouts: count("timeouts", "Members that were not heard of for so long that nobody waits for them."),
		trips:    count("circuit_breaker_trips", "Senders that were stopped for a while, for most of what they sent was lost."),
		received: count("received_bytes", "Bytes of replicas that came here over the network: without what was there already, and without holes."),
		rebuilt:  count("rebuilt_blocks", "Blocks that were computed from parity."),
		refused:  count("refused_packets", "Packets that were not sealed with the replication's key, or are none that a sender sends."),
		spilled:  count("spilled_blocks", "Blocks that had to be written before those that come before them."),
		standing: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "groupcast_replicator_disks_standing", Help: "Calls of disks that did not answer, were given up, and have not returned.",
		}),
		replicas: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "groupcast_replicator_replicas_total", Help: "Replicas that ended here, by state: complete or failed, and reason.",
		}, []string{"state", "reason"}),
	}
	m.tasks.WithLabelValues("send")
	m.tasks.WithLabelValues("receive")
	m.replicas.WithLabelValues("complete", "")
	registry.MustRegister(m.tasks, m.window, m.packets, m.repairs, m.polls, m.reports, m.wanted, m.trips, m.timeouts, m.offload,
		m.received, m.rebuilt, m.refused, m.spilled, m.replicas, m.standing)
	return m
}

// begin counts a task until it calls the function returned.
func (m *metrics) begin(duty string) (end func()) {
	m.tasks.WithLabelValues(duty).Inc()
	return m.tasks.WithLabelValues(duty).Dec
}

// sent adds what a leg has sent since it was last looked at.
func (m *metrics) sent(lan string, before, now send.Progress) {
	m.window.WithLabelValues(lan).Add(float64(now.Window - before.Window)) // others may be sent there, too
	for _, one := range []struct {
		counter prometheus.Counter
		count   func(algo.Counts) uint64
	}{
		{m.packets, func(c algo.Counts) uint64 { return c.Packets - c.Polls }},
		{m.repairs, func(c algo.Counts) uint64 { return c.Repairs }},
		{m.polls, func(c algo.Counts) uint64 { return c.Polls }},
		{m.reports, func(c algo.Counts) uint64 { return c.Reports }},
		{m.wanted, func(c algo.Counts) uint64 { return c.Wants }},
		{m.trips, func(c algo.Counts) uint64 { return c.Trips }},
		{m.timeouts, func(c algo.Counts) uint64 { return c.Timeouts }},
	} {
		one.counter.Add(float64(one.count(now.Counts) - one.count(before.Counts)))
	}
}

// uses shows whether the kernel takes, or gives, many packets at once.
func (m *metrics) uses(kind string, is bool) {
	value := 0.0
	if is {
		value = 1
	}
	m.offload.WithLabelValues(kind).Set(value)
}

// came adds what has come to a replica since it was last looked at.
func (m *metrics) came(before, now receive.Stats) {
	m.received.Add(float64(now.Came - before.Came))
	m.rebuilt.Add(float64(now.Rebuilt - before.Rebuilt))
	m.refused.Add(float64(now.Forged - before.Forged))
	m.spilled.Add(float64(now.Spilled - before.Spilled))
}

// ended counts a replica.
func (m *metrics) ended(report *replicav1.ReceiveReport) {
	state := "failed"
	if report.GetState() == replicav1.ReplicaState_REPLICA_STATE_COMPLETE {
		state = "complete"
	}
	m.replicas.WithLabelValues(state, report.GetReason()).Inc()
}
