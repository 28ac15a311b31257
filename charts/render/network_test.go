package render

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigsyaml "sigs.k8s.io/yaml"
)

// network is the pods of a render and the policies that apply to them, with the semantics that Kubernetes defines.
type network struct {
	*testing.T
	labels   map[string]map[string]string // of pods, by component
	ports    map[string]map[string]door   // by component and name
	policies []networkingv1.NetworkPolicy
}

func newNetwork(t *testing.T, values map[string]any) *network {
	t.Helper()
	objects, _, _, err := Render(t.Context(), "release", "default", values)
	if err != nil {
		t.Fatal(err)
	}
	n := &network{T: t, labels: map[string]map[string]string{"stranger": {"app": "stranger"}}, ports: make(map[string]map[string]door)}
	for _, o := range objects {
		if o.Kind.Kind == "NetworkPolicy" {
			var one networkingv1.NetworkPolicy
			if err := sigsyaml.UnmarshalStrict(o.Text, &one); err != nil {
				t.Fatal(err)
			}
			n.policies = append(n.policies, one)
		}
		if labels, spec := pod(t, o); spec != nil && !spec.HostNetwork {
			component := labels["app.kubernetes.io/component"]
			n.labels[component], n.ports[component] = labels, make(map[string]door)
			for _, port := range spec.Containers[0].Ports {
				n.ports[component][port.Name] = door{port.ContainerPort, cmp.Or(port.Protocol, corev1.ProtocolTCP)}
			}
		}
	}
	return n
}

// door is a port of a protocol.
type door struct {
	number   int32
	protocol corev1.Protocol
}

func tcp(port int32) door { return door{port, corev1.ProtocolTCP} }
func udp(port int32) door { return door{port, corev1.ProtocolUDP} }

// reaches reports whether one component's pods may send to a port of another's: the policies of both ends must allow it.
func (n *network) reaches(from, to string, port door) bool {
	n.Helper()
	if n.labels[from] == nil || n.labels[to] == nil {
		n.Fatalf("there is no %s or no %s on the pods' network", from, to)
	}
	return n.lets(networkingv1.PolicyTypeEgress, from, to, to, port) && n.lets(networkingv1.PolicyTypeIngress, to, from, to, port)
}

// lets reports whether the policies of one end allow traffic to or from the other. If no policy applies to a pod,
// everything is allowed.
func (n *network) lets(way networkingv1.PolicyType, bound, other, server string, port door) bool {
	isBound := false
	for _, policy := range n.policies {
		if !n.selects(&policy.Spec.PodSelector, bound) || !slices.Contains(policy.Spec.PolicyTypes, way) {
			continue
		}
		isBound = true
		if way == networkingv1.PolicyTypeEgress {
			for _, rule := range policy.Spec.Egress {
				if n.hasPeer(rule.To, other) && n.hasPort(rule.Ports, server, port) {
					return true
				}
			}
			continue
		}
		for _, rule := range policy.Spec.Ingress {
			if n.hasPeer(rule.From, other) && n.hasPort(rule.Ports, server, port) {
				return true
			}
		}
	}
	return !isBound
}

func (n *network) selects(selector *metav1.LabelSelector, component string) bool {
	n.Helper()
	if len(selector.MatchExpressions) > 0 {
		n.Fatal("a selector has expressions")
	}
	return isSubset(selector.MatchLabels, n.labels[component])
}

func (n *network) hasPeer(peers []networkingv1.NetworkPolicyPeer, component string) bool {
	return len(peers) == 0 || slices.ContainsFunc(peers, func(peer networkingv1.NetworkPolicyPeer) bool {
		return peer.PodSelector != nil && peer.NamespaceSelector == nil && n.selects(peer.PodSelector, component)
	})
}

// hasPort reports whether a rule includes a port of a server, by its number or by its name there, which belongs to one protocol.
func (n *network) hasPort(ports []networkingv1.NetworkPolicyPort, server string, at door) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(port networkingv1.NetworkPolicyPort) bool {
		protocol := corev1.ProtocolTCP
		if port.Protocol != nil {
			protocol = *port.Protocol
		}
		return protocol == at.protocol && (port.Port == nil || port.Port.IntVal == at.number || port.Port.StrVal != "" && n.ports[server][port.Port.StrVal] == at)
	})
}

// "network policy on": what has to be reached can be, and nothing else. Only managers reach the store. Only those that may read
// metrics reach the admin ports. Gatherers and Envoy reach managers, and nobody else with whom they have no business.
func TestNetworkPolicies(t *testing.T) {
	values := valuesOf(t, "restricted")
	values["networkPolicy"] = map[string]any{"enabled": true, "metricsFrom": []any{
		map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"app": "prometheus"}}},
	}}
	values["manager"] = map[string]any{"replicas": 3}
	n := newNetwork(t, values)
	n.labels["prometheus"] = map[string]string{"app": "prometheus"}
	for _, c := range []struct {
		from, to string
		port     door
		want     bool
	}{
		{"manager", "manager", tcp(2380), true},
		{"stranger", "manager", tcp(2379), false},
		{"stranger", "manager", tcp(2380), false},
		{"agent", "manager", tcp(2380), false},
		{"envoy", "manager", tcp(2379), false},
		{"stranger", "manager", tcp(7400), true},
		{"agent", "manager", tcp(7400), true},
		{"gatherer", "manager", tcp(7400), true},
		{"replicator", "manager", tcp(7400), true},
		{"envoy", "manager", tcp(7400), true},
		{"prometheus", "manager", tcp(7401), true},
		{"stranger", "manager", tcp(7401), false},
		{"agent", "manager", tcp(7401), false},
		{"stranger", "agent", tcp(7410), true},
		{"agent", "agent", tcp(7410), true},
		{"replicator", "agent", tcp(7410), true},
		{"stranger", "agent", udp(7410), true},
		{"agent", "agent", udp(7410), true},
		{"stranger", "agent", udp(7411), false},
		{"stranger", "gatherer", udp(7421), false},
		{"stranger", "replicator", udp(7430), true},
		{"replicator", "replicator", udp(7430), true},
		{"stranger", "manager", udp(7400), false},
		{"prometheus", "agent", tcp(7411), true},
		{"stranger", "agent", tcp(7411), false},
		{"stranger", "gatherer", tcp(7420), true},
		{"stranger", "gatherer", tcp(7421), true},
		{"envoy", "gatherer", tcp(7420), true},
		{"stranger", "gatherer", tcp(7422), false},
		{"gatherer", "agent", tcp(7410), false},
		{"gatherer", "stranger", tcp(443), false},
		{"prometheus", "replicator", tcp(7432), true},
		{"stranger", "replicator", tcp(7432), false},
		{"stranger", "replicator", tcp(7430), false},
		{"stranger", "envoy", tcp(7480), true},
		{"stranger", "envoy", tcp(7481), true},
		{"envoy", "agent", tcp(7410), false},
		{"envoy", "stranger", tcp(80), false},
		{"manager", "agent", tcp(7410), false},
	} {
		if got := n.reaches(c.from, c.to, c.port); got != c.want {
			t.Errorf("%s reaches port %d/%s of %s: %v, want %v", c.from, c.port.number, c.port.protocol, c.to, got, c.want)
		}
	}
}

// Policies may be applied after a Service's address has been translated to that of a pod or a machine: the API server and DNS can be reached at
// the ports that these have, by those that need them, and at no others.
func TestPortsOfTheCluster(t *testing.T) {
	for _, c := range []struct {
		policy map[string]any
		from   string
		port   int32
		want   bool
	}{
		{nil, "manager", 6443, true},
		{nil, "manager", 8443, false},
		{nil, "manager", 53, true},
		{nil, "gatherer", 6443, false},
		{map[string]any{"apiServerPorts": []any{8443}}, "manager", 8443, true},
		{map[string]any{"apiServerPorts": []any{8443}}, "manager", 443, false},
		{map[string]any{"dnsPorts": []any{53, 5353}}, "manager", 5353, true},
		{map[string]any{"dnsPorts": []any{53, 5353}}, "gatherer", 5353, true},
		{map[string]any{"dnsPorts": []any{53, 5353}}, "envoy", 5353, true},
		{map[string]any{"dnsPorts": []any{53, 5353}}, "envoy", 8443, false},
	} {
		values := valuesOf(t, "restricted")
		policy := map[string]any{"enabled": true}
		maps.Copy(policy, c.policy)
		values["networkPolicy"] = policy
		if got := newNetwork(t, values).reaches(c.from, "stranger", tcp(c.port)); got != c.want {
			t.Errorf("with %v, %s reaches port %d: %v, want %v", c.policy, c.from, c.port, got, c.want)
		}
	}
}
