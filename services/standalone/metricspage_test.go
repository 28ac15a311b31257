package standalone_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/metrics.md")

// metricsPage has all metrics, as services describe them.
const metricsPage = "../../docs/metrics.md"

const metricsIntro = `# Metrics

All metrics of Groupcast's services, as they describe themselves; a test compares this page with them. They are at ` + "`/metrics`" + ` of each admin port, beside those of the Go runtime, of calls and, at managers, of etcd (` + "`etcd_…`" + `).
What to look at first, and what to do, is in [operations.md](operations.md), [gathering.md](gathering.md) and [replication.md](replication.md); alerts are in
[charts/groupcast/files/rules.yaml](../charts/groupcast/files/rules.yaml), dashboards in [charts/groupcast/dashboards](../charts/groupcast/dashboards).
`

// The page of metrics has each metric with its labels, and no other.
func TestMetricsPage(t *testing.T) {
	want := metricsIntro
	all := described(t)
	for _, part := range []struct{ prefix, title string }{
		{"groupcast_manager_", "Managers"}, {"groupcast_agent_", "Agents"}, {"groupcast_gatherer_", "Gatherers"}, {"groupcast_replicator_", "Replicators"}, {"groupcast_build_", "All"},
	} {
		want += "\n## " + part.title + "\n\n| metric | labels | what |\n|---|---|---|\n"
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if strings.HasPrefix(name, part.prefix) {
				want += all[name].row(name)
			}
		}
	}
	if *update {
		if err := os.WriteFile(metricsPage, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(metricsPage)
	if err != nil || string(got) != want {
		t.Errorf("%s is not what the services describe (%v): go test ./services/standalone -run %s -update writes it", metricsPage, err, t.Name())
	}
}

func (d description) row(name string) string {
	labels := "–"
	if d.labels != "" {
		labels = "`" + strings.ReplaceAll(d.labels, ",", "`, `") + "`"
	}
	return fmt.Sprintf("| `%s` | %s | %s |\n", name, labels, strings.ReplaceAll(d.help, "|", `\|`))
}
