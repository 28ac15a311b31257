//go:build cluster

package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/testprocess"
	"github.com/groupcast/groupcast/sdk"
)

const (
	nodes             = 3
	grpcNodePort      = 30480
	httpNodePort      = 30481
	gatheringNodePort = 30483
	tightNodePort     = 30490
	tightGathering    = 30491
	mebibyte          = 1 << 20
)

// gc is the release of the default profile. All tests but TestI… and TestJ… use it, one after another in the order of their letters, and
// each finds the cluster as the one before has left it: what is scaled, upgraded or deleted comes late.
var gc = release{
	name: "gc", namespace: "gc", port: grpcNodePort,
	values: []string{
		"image.pullPolicy=Never", "agent.cache.size=512Mi", fmt.Sprintf("tests.agents=%d", nodes),
		"gatherer.storage.size=1Gi", "gatherer.storage.reserve=16Mi", "replicator.sources={/usr/local/bin}", "networkPolicy.enabled=true",
		"envoy.service.type=NodePort", fmt.Sprintf("envoy.service.nodePort=%d,envoy.service.httpNodePort=%d,envoy.service.gatheringNodePort=%d", grpcNodePort, httpNodePort, gatheringNodePort),
	},
}

// threeManagers is the number of managers in the release once it has been scaled.
const threeManagers = "manager.replicas=3"

// "`helm install` on a cluster gives a working Groupcast."
func TestAInstallAndTest(t *testing.T) {
	gc.keepArtifacts(t)
	if _, err := kubectl("get", "namespace", gc.namespace); err != nil { // it exists if the cluster was kept from an earlier run
		mustKubectl(t, "create", "namespace", gc.namespace)
	}
	gc.apply(t)
	gc.check(t)
	if restarts := gc.kubectl(t, "get", "pods", "-l", "app.kubernetes.io/instance=gc", "-o", "jsonpath={.items[*].status.containerStatuses[*].restartCount}"); strings.Trim(restarts, "0 ") != "" {
		t.Errorf("containers were restarted: %s", restarts)
	}
}

// "one-to-many to all nodes with verified receipts", by the real command from outside through Envoy.
func TestBOneToManyByTheCommand(t *testing.T) {
	gc.keepArtifacts(t)
	access := gc.operator(t)
	p := newParty(t, access, "models", sdk.Receive)
	defer p.leave()
	source, hash := random(t, 64*mebibyte)
	groupcast := testprocess.Binary(t, "github.com/groupcast/groupcast/services/cli/cmd/groupcast")
	output, err := command(3*time.Minute, groupcast, "--config", access, "push", source, "--group", "models")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(output, fmt.Sprintf("%d of %d members have it", nodes, nodes)) {
		t.Errorf("receipts:\n%s", output)
	}
	p.all(hash)
	wantEverybody(t, groupcast, access)
	if said, ready := gc.status(t); !ready {
		t.Errorf("everybody is here, and Kubernetes is said to say:\n%s", said)
	}
}

// wantEverybody wants the command's status to miss nobody.
func wantEverybody(t *testing.T, groupcast, access string) {
	t.Helper()
	output, err := command(time.Minute, groupcast, "--config", access, "status", "-o", "json")
	if err != nil {
		t.Error(err)
		return
	}
	var status struct {
		ManagersOnline, ManagersOffline int
		Absent                          []string
		Away                            []json.RawMessage
	}
	if err := json.Unmarshal([]byte(output), &status); err != nil {
		t.Errorf("the status is not readable: %v:\n%s", err, output)
		return
	}
	if status.ManagersOnline == 0 || status.ManagersOffline > 0 || len(status.Absent) > 0 || len(status.Away) > 0 {
		t.Errorf("everybody is here, and the status says:\n%s", output)
	}
}

// "whatever one sends reaches all others"
func TestCManyToMany(t *testing.T) {
	gc.keepArtifacts(t)
	p := newParty(t, gc.operator(t), "crowd", sdk.Send, sdk.Receive)
	defer p.leave()
	hashes := make(map[string]int)
	for i, session := range p.sessions {
		source, hash := random(t, 8*mebibyte)
		hashes[hash] = i
		out, err := session.Send(t.Context(), source, sdk.SendOptions{Name: fmt.Sprintf("from-%d", i), AckLevel: sdk.Durable})
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = out.Wait(t.Context()) }()
	}
	for i := range p.sessions {
		for range nodes - 1 {
			name, hash := p.next(i)
			if from, known := hashes[hash]; !known || from == i || name != fmt.Sprintf("from-%d", from) {
				t.Errorf("member %d got %s with %.12s", i, name, hash)
			}
		}
	}
}

// "agent pod killed mid-delivery"
func TestDAgentKilled(t *testing.T) {
	gc.keepArtifacts(t)
	p := newParty(t, gc.operator(t), "models", sdk.Receive)
	defer p.leave()
	s := p.send(64*mebibyte, 4*mebibyte)
	p.until(s, 8*mebibyte)
	gc.killAgent(t)
	p.complete(s)
	gc.kubectl(t, "rollout", "status", "ds/gc-groupcast-agent", "--timeout=2m")
}

// "scale the manager 1 → 3", while a delivery is running; what one manager knew, all know.
func TestEScaleManagers(t *testing.T) {
	gc.keepArtifacts(t)
	p := newParty(t, gc.operator(t), "models", sdk.Receive)
	defer p.leave()
	s := p.send(32*mebibyte, 2*mebibyte)
	before := gc.kubectl(t, "get", "pod", "gc-groupcast-manager-0", "-o", "jsonpath={.metadata.uid}")
	gc.apply(t, threeManagers)
	if output, err := gc.upgrade("manager.replicas=1"); err == nil || !strings.Contains(output, "it has no majority") {
		t.Errorf("fewer managers: %v\n%s", err, output)
	}
	if gc.kubectl(t, "get", "pod", "gc-groupcast-manager-0", "-o", "jsonpath={.metadata.uid}") != before {
		t.Error("the first manager was restarted to become one of three")
	}
	at := strings.Fields(gc.kubectl(t, "get", "pods", "-l", "app.kubernetes.io/component=manager", "-o", "jsonpath={.items[*].spec.nodeName}"))
	if slices.Sort(at); len(slices.Compact(at)) != nodes {
		t.Errorf("three managers are on %v: one node takes the majority along", at)
	}
	p.complete(s)
	groups, err := p.client.Groups(t.Context())
	if err != nil || len(groups) != 2 {
		t.Errorf("groups %v, %v", groups, err)
	}
}

// "manager leader killed": the delivery goes on, and another leads.
func TestFLeaderKilled(t *testing.T) {
	gc.keepArtifacts(t)
	p := newParty(t, gc.operator(t), "models", sdk.Receive)
	defer p.leave()
	status, err := p.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := p.send(48*mebibyte, 3*mebibyte)
	p.until(s, 6*mebibyte)
	gc.kill(t, status.Leader)
	p.complete(s)
	leads := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		now, err := p.client.Status(ctx)
		return err == nil && now.Leader != ""
	}
	for deadline := time.Now().Add(time.Minute); !leads(); {
		if time.Now().After(deadline) {
			t.Fatal("nobody leads")
		}
	}
	gc.kubectl(t, "rollout", "status", "sts/gc-groupcast-manager", "--timeout=4m")
}

// "Upgrade from the previous chart version and rollback …: running deliveries survive a rolling restart of managers and
// agents". Each chart is installed with the programs of its own version.
func TestGUpgradeAndRollback(t *testing.T) {
	gc.keepArtifacts(t)
	formerImages(t)
	gc.kubectl(t, "delete", "statefulset", "gc-groupcast-gatherer", "--cascade=orphan") // that chart's StatefulSet manages its pods in another way
	gc.applyChart(t, formerChart(t), threeManagers, "image.tag="+formerTag)
	former := gc.versions(t)
	p := newParty(t, gc.operator(t), "models", sdk.Receive)
	defer p.leave()
	s := p.send(56*mebibyte, 2*mebibyte)
	p.until(s, 4*mebibyte)
	gc.apply(t, threeManagers)
	p.complete(s)
	if present := gc.versions(t); len(former) != 2 || len(present) != 2 || slices.ContainsFunc(present, func(v string) bool { return slices.Contains(former, v) }) {
		t.Errorf("the chart and the programs were of %v, and after the upgrade of %v", former, present)
	}
	s = p.send(56*mebibyte, 2*mebibyte)
	p.until(s, 4*mebibyte)
	if _, err := gc.helm(6*time.Minute, "rollback", gc.name, "--wait", "--timeout", "5m"); err != nil {
		t.Fatal(err)
	}
	p.complete(s)
	if got := gc.versions(t); !slices.Equal(got, former) {
		t.Errorf("after the rollback, the chart and the programs are of %v, want %v", got, former)
	}
	gc.apply(t, threeManagers)
}

// "HTTP/JSON … (`curl` works)", and the identity that reaches the managers is the one that Envoy was shown.
func TestHJSONThroughEnvoy(t *testing.T) {
	gc.keepArtifacts(t)
	secret := gc.secret(t, "gc-groupcast-operator")
	operator := httpClient(t, secret["tls.crt"], secret["tls.key"], secret["ca.crt"])
	if code, body := post(t, operator, "GroupService/ListGroups", nil); code != http.StatusOK || !strings.Contains(body, `"models"`) {
		t.Errorf("an operator: %d %s", code, body)
	}
	// A caller that is no operator cannot become one by a header.
	member := enrolled(t, gc.operator(t))
	forged := http.Header{"X-Forwarded-Client-Cert": {`Cert="` + url.PathEscape(string(secret["tls.crt"])) + `"`}}
	if code, body := post(t, member, "GroupService/ListGroups", forged); code != http.StatusForbidden {
		t.Errorf("a member with a forged header: %d %s", code, body)
	}
	nobody := httpClient(t, nil, nil, secret["ca.crt"])
	if answer, err := nobody.Post(jsonURL(t)+"GroupService/ListGroups", "application/json", strings.NewReader("{}")); err == nil {
		answer.Body.Close()
		t.Error("without a certificate it is let in")
	}
	if code, _ := post(t, operator, "IdentityService/CreateToken", nil); code != http.StatusNotFound {
		t.Errorf("identities are made through the gateway: %d", code)
	}
}

func jsonURL(t *testing.T) string {
	return fmt.Sprintf("https://%s:%d/groupcast.group.v1.", nodeAddresses(t)[0], httpNodePort)
}

func httpClient(t *testing.T, certificate, key, authority []byte) *http.Client {
	t.Helper()
	config := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: "gc-groupcast-envoy.gc.svc", RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(authority)
	if certificate != nil {
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

func post(t *testing.T, client *http.Client, method string, header http.Header) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, jsonURL(t)+method, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	for key, values := range header {
		request.Header[key] = values
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(bytes.TrimSpace(body))
}

// "two releases in one cluster", and "the core again under the restricted profile": the namespace refuses everything else.
func TestIRestrictedProfile(t *testing.T) {
	restricted := release{
		name: "tight", namespace: "tight",
		values: []string{
			"image.pullPolicy=Never", "dataPlane.hostNetwork=false", "agent.cache.size=256Mi", "networkPolicy.enabled=true",
			fmt.Sprintf("tests.agents=%d,tests.size=48MiB,tests.rate=4MiB", nodes),
			"replicator.sources={/usr/local/bin}", "envoy.service.type=NodePort", fmt.Sprintf("envoy.service.nodePort=%d,envoy.service.gatheringNodePort=%d", tightNodePort, tightGathering),
			"gatherer.storage.size=1Gi", "gatherer.storage.reserve=16Mi", memberAccounts,
		},
		port: tightNodePort,
	}
	restricted.keepArtifacts(t)
	mustKubectl(t, "create", "namespace", restricted.namespace)
	mustKubectl(t, "label", "namespace", restricted.namespace, "pod-security.kubernetes.io/enforce=restricted")
	restricted.apply(t)
	var output string
	var failed error
	var running sync.WaitGroup
	running.Go(func() { output, failed = restricted.test() })
	restricted.killAgentWhileDelivering(t)
	running.Wait()
	restricted.passed(t, output, failed)
	restricted.kubectl(t, "rollout", "status", "ds/tight-groupcast-agent", "--timeout=2m")
	restricted.replicates(t, true)
	within := restricted.inside(t)
	within.manyToMany()
	within.datagrams()
	within.gather(fmt.Sprintf("%s:%d", nodeAddresses(t)[0], tightGathering))
	restricted.letsMembersIn(t)
	gc.check(t) // the other release is as well as before
	if rights := restricted.rights(t); len(rights) != 2 {
		t.Errorf("rights in all of the cluster are %v, want a ClusterRole and its binding", rights)
	}
	if _, err := restricted.helm(3*time.Minute, "uninstall", restricted.name, "--wait"); err != nil {
		t.Fatal(err)
	}
	if rights := restricted.rights(t); len(rights) > 0 {
		t.Errorf("uninstalled, rights in all of the cluster are left: %v", rights)
	}
	eventually(t, "its pods are gone", func() bool { // each has its time to end
		pods := strings.Fields(restricted.kubectl(t, "get", "pods", "-o", "name"))
		return !slices.ContainsFunc(pods, func(pod string) bool { return !strings.HasPrefix(pod, "pod/tight-groupcast-test") })
	})
	left := restricted.kubectl(t, "get", "all,secret,configmap,serviceaccount,role,rolebinding,networkpolicy,pdb,pvc", "-o", "name")
	for name := range strings.FieldsSeq(left) {
		if !strings.HasPrefix(name, "persistentvolumeclaim/") && !strings.HasSuffix(name, "/default") && !strings.HasSuffix(name, "/kube-root-ca.crt") && !strings.HasPrefix(name, "pod/tight-groupcast-test") {
			t.Errorf("uninstalled, %s is left", name)
		}
	}
}

// rights returns what the release has created outside its namespace.
func (r release) rights(t *testing.T) (names []string) {
	t.Helper()
	for name := range strings.FieldsSeq(mustKubectl(t, "get", "clusterrole,clusterrolebinding", "-o", "name")) {
		if strings.Contains(name, "/"+r.namespace+":") {
			names = append(names, name)
		}
	}
	return names
}

// killAgentWhileDelivering waits until a delivery is in progress, and then ends an agent's pod.
func (r release) killAgentWhileDelivering(t *testing.T) {
	t.Helper()
	client, err := sdk.Open(r.operator(t))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	underWay := func(d sdk.Delivery) bool { return d.State == sdk.DeliveryRunning && d.SentBytes >= 8*mebibyte }
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		deliveries, err := client.Deliveries(t.Context(), "")
		if slices.ContainsFunc(deliveries, underWay) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no delivery was under way to be disturbed: %v", err)
		}
	}
	r.killAgent(t)
}

// killAgent ends an agent's pod as the failure of its node would.
func (r release) killAgent(t *testing.T) {
	t.Helper()
	r.kill(t, strings.Fields(r.kubectl(t, "get", "pods", "-l", "app.kubernetes.io/component=agent", "-o", "jsonpath={.items[*].metadata.name}"))[0])
}

// kill ends a pod as the failure of its node would. If the test fails, what the pod has said is kept.
func (r release) kill(t *testing.T, pod string) {
	t.Helper()
	said, err := kubectl("-n", r.namespace, "logs", pod, "--tail=-1")
	t.Cleanup(func() {
		if t.Failed() {
			keep(r.artifacts(t), pod+".killed.log", said, err)
		}
	})
	r.kubectl(t, "delete", "pod", pod, "--force", "--grace-period=0")
}

// "a namespace that enforces `restricted` under the default profile (the message names the value to set)"
func TestJRefusedByTheNamespace(t *testing.T) {
	t.Parallel()
	refused := release{name: "refused", namespace: "refused"}
	mustKubectl(t, "create", "namespace", refused.namespace)
	mustKubectl(t, "label", "namespace", refused.namespace, "pod-security.kubernetes.io/enforce=restricted")
	output, err := refused.helm(time.Minute, "install", refused.name, chart, "--set", "image.tag="+dev+",agent.port=17410,agent.adminPort=17411,envoy.enabled=false,gatherer.enabled=false,replicator.enabled=false")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(output, "dataPlane.hostNetwork=false") {
		t.Errorf("the notes do not name the value:\n%s", output)
	}
	refused.explained(t, "agent: daemonset/refused-groupcast-agent: the namespace enforces a pod security standard", "dataPlane.hostNetwork=false")
	if _, err := refused.helm(time.Minute, "uninstall", refused.name); err != nil {
		t.Error(err)
	}
}
