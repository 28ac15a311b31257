//go:build cluster

package cluster

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
)

// The cable of a node is pulled: "killing an agent must move the panels and fire the alert that claim to show it". A delivery in
// progress goes on: the remaining managers decide, the remaining agents carry it, and no session is lost, whichever manager it led
// to. The node comes back, and the alert ends.
func TestNNodeIsCutOff(t *testing.T) {
	gc.keepArtifacts(t)
	const firing = `count(ALERTS{alertname="GroupcastAgentDown", alertstate="firing"})`
	online, silent := panelOf(t, "overview.json", "Agents online"), panelOf(t, "overview.json", "Agents silent")
	missed := panelOf(t, "overview.json", "Managers missed")
	gone := func(n float64) bool {
		return number(t, online) == nodes-n && number(t, silent) == n && number(t, missed) == n && number(t, firing) == n
	}
	eventually(t, "all agents are online", func() bool { return gone(0) })
	p := newParty(t, gc.operator(t), "models", sdk.Receive)
	s := p.send(48*mebibyte, 2*mebibyte)
	p.until(s, 4*mebibyte)
	node := spareNode(t)
	mend := cutOff(t, node)
	p.complete(s)
	eventually(t, "the panels show that an agent and a manager are gone, and the alert fires", func() bool { return gone(1) })
	p.complete(p.send(16*mebibyte, 0))
	p.leave()
	mend()
	eventually(t, "they are back, and the alert has ended", func() bool { return gone(0) })
	mustKubectl(t, "wait", "--for=condition=Ready", "node/"+node, "--timeout=2m")
	gc.settled(t)
}

// "node drained": what can run elsewhere moves there, and a delivery goes on; the remaining managers decide.
func TestONodeDrained(t *testing.T) {
	gc.keepArtifacts(t)
	p := newParty(t, gc.operator(t), "models", sdk.Receive)
	defer p.leave()
	s := p.send(48*mebibyte, 3*mebibyte)
	p.until(s, 4*mebibyte)
	node := spareNode(t)
	t.Cleanup(func() { mustKubectl(t, "uncordon", node) })
	if output, err := command(4*time.Minute, "kubectl", "--kubeconfig", kubeconfig, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=3m"); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	p.complete(s)
	if status, err := p.client.Status(t.Context()); err != nil || status.Leader == "" {
		t.Errorf("with a node drained: %+v, %v", status, err)
	}
	mustKubectl(t, "uncordon", node)
	gc.settled(t)
}

// settled waits until everything in a release is ready.
func (r release) settled(t *testing.T) {
	t.Helper()
	for _, one := range strings.Fields(r.kubectl(t, "get", "sts,ds,deploy", "-l", "app.kubernetes.io/instance="+r.name, "-o", "name")) {
		r.kubectl(t, "rollout", "status", one, "--timeout=100s")
	}
}

// spareNode returns a node that has neither the control plane nor Envoy's only pod, through which the test comes in.
func spareNode(t *testing.T) string {
	t.Helper()
	taken := gc.kubectl(t, "get", "pods", "-l", "app.kubernetes.io/component=envoy", "-o", "jsonpath={.items[*].spec.nodeName}") + " " + clusterName + "-control-plane"
	for _, node := range nodeNames(t) {
		if !slices.Contains(strings.Fields(taken), node) {
			return node
		}
	}
	t.Fatal("no node can be spared")
	return ""
}

// cutOff prevents a node from sending and receiving until mend is called or the test has ended.
func cutOff(t *testing.T, node string) (mend func()) {
	t.Helper()
	cut := true
	filter := func(how string) {
		for _, way := range []string{"raw " + how + " PREROUTING -i eth0", "mangle " + how + " POSTROUTING -o eth0"} {
			args := append([]string{"exec", node, "iptables", "-w", "-t"}, strings.Fields(way+" -j DROP")...)
			if _, err := command(time.Minute, "docker", args...); err != nil {
				t.Errorf("%s: %v", node, err)
			}
		}
	}
	filter("-I")
	mend = func() {
		if cut {
			filter("-D")
		}
		cut = false
	}
	t.Cleanup(mend)
	return mend
}

// number returns the present value of an expression in Prometheus; 0 if it has none.
func number(t *testing.T, expression string) float64 {
	t.Helper()
	text := gc.kubectl(t, "get", "--raw", "/api/v1/namespaces/gc/pods/prometheus:9090/proxy/api/v1/query?"+url.Values{"query": {expression}}.Encode())
	var got struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Data.Result) == 0 {
		return 0
	}
	value, err := strconv.ParseFloat(fmt.Sprint(got.Data.Result[0].Value[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// eventually waits until the cluster has brought something about.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !holds(); time.Sleep(time.Second) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}
