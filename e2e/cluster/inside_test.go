//go:build cluster

package cluster

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/testprocess"
)

// inside is the command on the cluster's nodes, from which the pod network can be reached; from outside it cannot.
type inside struct {
	t     *testing.T
	nodes []string
}

// place is where everything that it needs is on each node. It is not on a tmpfs, which docker cp does not see.
const place = "/opt/groupcast-e2e"

// inside puts the command and an operator's configuration on every node.
func (r release) inside(t *testing.T) *inside {
	t.Helper()
	i := &inside{t, nodeNames(t)}
	groupcast := testprocess.Binary(t, "github.com/groupcast/groupcast/services/cli/cmd/groupcast")
	access := filepath.Dir(r.operator(t))
	for node, name := range i.nodes {
		i.must(node, "mkdir", "-p", place+"/access", place+"/into")
		t.Cleanup(func() { _, _ = i.run(node, "rm", "-rf", place) })
		for from, to := range map[string]string{groupcast: "/groupcast", access + "/.": "/access"} {
			if _, err := command(time.Minute, "docker", "cp", from, name+":"+place+to); err != nil {
				t.Fatal(err)
			}
		}
	}
	return i
}

// run runs a program on a node.
func (i *inside) run(node int, args ...string) (string, error) {
	return command(3*time.Minute, "docker", append([]string{"exec", i.nodes[node]}, args...)...)
}

func (i *inside) must(node int, args ...string) string {
	i.t.Helper()
	output, err := i.run(node, args...)
	if err != nil {
		i.t.Fatal(err)
	}
	return strings.TrimSpace(output)
}

// script returns a shell script in which $groupcast is the command.
func script(format string, args ...any) []string {
	return []string{"sh", "-ec", "cd " + place + "; groupcast='./groupcast --config access/config.yaml'; " + fmt.Sprintf(format, args...)}
}

// manyToMany makes a member on every node send to the members on all of them at once: each gets what each has sent.
func (i *inside) manyToMany() {
	i.t.Helper()
	i.must(0, script("$groupcast group create crowd")...)
	var pulling, pushing sync.WaitGroup
	for node, name := range i.nodes {
		pulling.Go(func() {
			// It is ended below, and leaves: how it ends does not matter.
			_, _ = i.run(node, script("echo $$ >pid; exec $groupcast pull --group crowd --into into --as member-%d --node %s", node, name)...)
		})
		pushing.Go(func() {
			said, err := i.run(node, script("head -c 8388608 /dev/urandom >from-%d; $groupcast push from-%d --group crowd --as sender-%d --wait %d", node, node, node, nodes)...)
			if err != nil || !strings.Contains(said, fmt.Sprintf("%d of %d members have it", nodes, nodes)) {
				i.t.Errorf("%v: %s", err, said)
			}
		})
	}
	pushing.Wait()
	for node := range i.nodes {
		i.must(node, script("kill -INT $(cat pid)")...)
	}
	pulling.Wait()
	const sums = "for file in %s/from-*; do sha256sum <$file; done"
	var sent, got []string
	for node := range i.nodes {
		sent = append(sent, i.must(node, script(sums, ".")...))
		got = append(got, i.must(node, script(sums, "into")...))
	}
	for node, all := range got {
		if want := strings.Join(sent, "\n"); all != want {
			i.t.Errorf("on %s came\n%s\nwant\n%s", i.nodes[node], all, want)
		}
	}
}

// datagrams makes a member on one node send a stream in datagrams, which a member on another node gets by way of two
// agents and their UDP ports.
func (i *inside) datagrams() {
	i.t.Helper()
	i.must(0, script("$groupcast group create watchers")...)
	var pulling sync.WaitGroup
	pulling.Go(func() {
		if said, err := i.run(1, script("exec $groupcast pull --group watchers --into into --once --as watcher --node %s", i.nodes[1])...); err != nil {
			i.t.Errorf("%v: %s", err, said)
		}
	})
	const lines = 100
	said, err := i.run(0, script("for line in $(seq %d); do echo $line; sleep 0.02; done | $groupcast push - --group watchers --stream --datagrams --fresh 20s --parity 4+1 --name ticks --as sensor --wait 1", lines)...)
	if err != nil || !strings.Contains(said, "1 of 1 members say what came of them") {
		i.t.Errorf("%v: %s", err, said)
	}
	pulling.Wait()
	if got := strings.Fields(i.must(1, script("cat into/ticks")...)); len(got) < lines/2 { // some may be lost on the way
		i.t.Errorf("of %d lines in datagrams came %d", lines, len(got))
	}
}

// gather makes clients on two nodes upload: the one with priority is done first.
func (i *inside) gather(gatherer string) {
	i.t.Helper()
	i.must(0, script("printf '%s' >policy; $groupcast gather policy set policy --to %s", twoPriorities, gatherer)...)
	clients := []string{"high", "low"}
	for node, client := range clients { // both are there before either begins
		i.must(node, script("head -c 50331648 /dev/urandom >%s", client)...)
	}
	ended := make([]time.Time, 2)
	var uploading sync.WaitGroup
	for node, client := range clients {
		uploading.Go(func() {
			if said, err := i.run(node, script("$groupcast upload %s --as %s --to %s", client, client, gatherer)...); err != nil {
				i.t.Errorf("%s: %v: %s", client, err, said)
			}
			ended[node] = time.Now()
		})
	}
	uploading.Wait()
	wantPriority(i.t, ended[0], ended[1])
}
