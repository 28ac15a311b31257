package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/groupcast/groupcast/charts/envoy"
)

// profiles are the files of ci/, each with the pod security level of every pod: the exact one.
var profiles = map[string]map[string]api.Level{
	"default":       {"manager": api.LevelRestricted, "agent": api.LevelPrivileged, "gatherer": api.LevelPrivileged, "replicator": api.LevelPrivileged, "envoy": api.LevelRestricted, "test": api.LevelRestricted},
	"restricted":    {"manager": api.LevelRestricted, "agent": api.LevelRestricted, "gatherer": api.LevelRestricted, "replicator": api.LevelRestricted, "envoy": api.LevelRestricted, "test": api.LevelRestricted},
	"ha":            {"manager": api.LevelRestricted, "agent": api.LevelPrivileged, "gatherer": api.LevelPrivileged, "replicator": api.LevelPrivileged, "envoy": api.LevelRestricted, "test": api.LevelRestricted},
	"external-etcd": {"manager": api.LevelRestricted, "agent": api.LevelPrivileged, "gatherer": api.LevelPrivileged, "replicator": api.LevelPrivileged, "envoy": api.LevelRestricted, "test": api.LevelRestricted},
	"minimal":       {"manager": api.LevelRestricted},
	"everything":    {"manager": api.LevelRestricted, "agent": api.LevelPrivileged, "gatherer": api.LevelPrivileged, "replicator": api.LevelPrivileged, "envoy": api.LevelRestricted, "test": api.LevelRestricted},
}

func valuesOf(t *testing.T, profile string) map[string]any {
	t.Helper()
	values, err := Values(profile)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

func rendered(t *testing.T, profile, name, namespace string) ([]Object, string, string) {
	t.Helper()
	objects, manifest, notes, err := Render(t.Context(), name, namespace, valuesOf(t, profile))
	if err != nil {
		t.Fatalf("%s: %v", profile, err)
	}
	return objects, manifest, notes
}

// pod returns the pod of an object that has one.
func pod(t *testing.T, o Object) (meta map[string]string, spec *corev1.PodSpec) {
	t.Helper()
	strict := func(into any) {
		t.Helper()
		if err := sigsyaml.UnmarshalStrict(o.Text, into); err != nil {
			t.Errorf("%s %s: %v", o.Kind.Kind, o.Name, err)
		}
	}
	switch o.Kind.Kind {
	case "StatefulSet":
		var s appsv1.StatefulSet
		strict(&s)
		return s.Spec.Template.Labels, &s.Spec.Template.Spec
	case "DaemonSet":
		var s appsv1.DaemonSet
		strict(&s)
		return s.Spec.Template.Labels, &s.Spec.Template.Spec
	case "Deployment":
		var s appsv1.Deployment
		strict(&s)
		return s.Spec.Template.Labels, &s.Spec.Template.Spec
	case "Pod":
		var s corev1.Pod
		strict(&s)
		return s.Labels, &s.Spec
	case "NetworkPolicy":
		strict(new(networkingv1.NetworkPolicy))
	case "PodDisruptionBudget":
		strict(new(policyv1.PodDisruptionBudget))
	case "Role":
		strict(new(rbacv1.Role))
	case "ClusterRole":
		strict(new(rbacv1.ClusterRole))
	case "Service":
		strict(new(corev1.Service))
	case "ConfigMap":
		strict(new(corev1.ConfigMap))
	case "Secret":
		strict(new(corev1.Secret))
	}
	return nil, nil
}

// "A test asserts the exact pod-security level of each pod for each values file"; and each container is
// without root and capabilities, with a root file system that cannot be written, in every profile.
func TestPodSecurity(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for profile, want := range profiles {
		seen := make(map[string]bool)
		objects, _, _ := rendered(t, profile, "release", "default")
		for _, o := range objects {
			labels, spec := pod(t, o)
			if spec == nil {
				continue
			}
			component := labels["app.kubernetes.io/component"]
			seen[component] = true
			if got := level(evaluator, spec); got != want[component] {
				t.Errorf("%s: %s is %s, want %s", profile, component, got, want[component])
			}
			spec.HostNetwork = false // what is left of the agents but for the nodes' network?
			for i := range spec.Containers {
				for j := range spec.Containers[i].Ports {
					spec.Containers[i].Ports[j].HostPort = 0
				}
				security := spec.Containers[i].SecurityContext
				if security.ReadOnlyRootFilesystem == nil || !*security.ReadOnlyRootFilesystem || len(security.Capabilities.Add) > 0 {
					t.Errorf("%s: %s writes to its root or has capabilities", profile, component)
				}
			}
			if got := level(evaluator, spec); got != api.LevelRestricted {
				t.Errorf("%s: %s is %s but for the network", profile, component, got)
			}
		}
		if len(seen) != len(want) {
			t.Errorf("%s: pods of %v, want %v", profile, seen, want)
		}
	}
}

func level(evaluator policy.Evaluator, spec *corev1.PodSpec) api.Level {
	for _, level := range []api.Level{api.LevelRestricted, api.LevelBaseline} {
		allowed := true
		for _, result := range evaluator.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, &metav1.ObjectMeta{}, spec) {
			allowed = allowed && result.Allowed
		}
		if allowed {
			return level
		}
	}
	return api.LevelPrivileged
}

// "deterministic render"
func TestSameValuesSameBytes(t *testing.T) {
	for profile := range profiles {
		_, first, _ := rendered(t, profile, "release", "default")
		_, second, _ := rendered(t, profile, "release", "default")
		if first != second {
			t.Errorf("%s renders otherwise the second time", profile)
		}
	}
}

// "works in any namespace, twice in one cluster": no two objects of the cluster have one name, and nothing is in another namespace.
func TestTwiceInOneCluster(t *testing.T) {
	seen := make(map[string]string)
	for _, at := range [][2]string{{"one", "a"}, {"two", "a"}, {"one", "b"}} {
		objects, _, _ := rendered(t, "restricted", at[0], at[1])
		for _, o := range objects {
			var head struct {
				Metadata struct{ Namespace string }
			}
			if err := sigsyaml.Unmarshal(o.Text, &head); err != nil {
				t.Fatal(err)
			}
			if head.Metadata.Namespace != at[1] && !strings.HasPrefix(o.Kind.Kind, "ClusterRole") {
				t.Errorf("%s %s is in %q", o.Kind.Kind, o.Name, head.Metadata.Namespace)
			}
			key := o.Kind.Kind + "/" + head.Metadata.Namespace + "/" + o.Name
			if other, there := seen[key]; there {
				t.Errorf("%s is of %v and of %s", key, at, other)
			}
			seen[key] = fmt.Sprint(at)
		}
	}
}

// Long names that differ at their end alone are of different releases in one namespace; what is short enough stays as it is.
func TestLongNamesStayApart(t *testing.T) {
	forty, longest := strings.Repeat("a", 40), strings.Repeat("r", 52) // helm takes no more than 53
	seen := make(map[string]string)
	releases := [][2]string{ // with their fullnameOverride
		{longest + "1", ""},
		{longest + "2", ""},
		{"release", forty},
		{"release", forty + "-one"},
		{"release", forty + "-two"},
		{"release", strings.Repeat("b", 30) + "-" + forty},
	}
	for _, at := range releases {
		objects, _, _, err := Render(t.Context(), at[0], "default", map[string]any{"fullnameOverride": at[1]})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			key := o.Kind.Kind + "/" + o.Name
			if other, there := seen[key]; there {
				t.Errorf("%s is of %s and of %v", key, other, at)
			}
			seen[key] = fmt.Sprint(at)
			if wrong := validation.IsDNS1123Label(o.Name); o.Kind.Kind != "ClusterRole" && o.Kind.Kind != "ClusterRoleBinding" && len(wrong) > 0 {
				t.Errorf("%s: %v", key, wrong)
			}
		}
	}
	if seen["Service/"+forty+"-manager"] == "" {
		t.Error("a name of 40 letters is cut")
	}
}

// "strict `values.schema.json` with negative tests": the message names the path.
func TestBadValuesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"manager": {"replica": 3}}`:                                       "replica",
		`{"manager": {"replicas": "3"}}`:                                    "/manager/replicas",
		`{"manager": {"replicas": 2}}`:                                      "with the embedded store it can be 1 or 3",
		`{"dataplane": {"hostNetwork": false}}`:                             "dataplane",
		`{"dataPlane": {"hostNetwork": "no"}}`:                              "/dataPlane/hostNetwork",
		`{"agent": {"port": 80}}`:                                           "/agent/port",
		`{"agent": {"port": 7411}}`:                                         "agent.port and agent.adminPort are the same",
		`{"gatherer": {"dataPort": 7410}}`:                                  "agent.port and gatherer.dataPort are the same",
		`{"gatherer": {"controller": "best"}}`:                              "/gatherer/controller",
		`{"gatherer": {"policy": {"defaults": {}}}}`:                        "at '/gatherer/policy': additional properties 'defaults'",
		`{"gatherer": {"policy": {"default": {"targt": "1MB"}}}}`:           "at '/gatherer/policy/default': additional properties 'targt'",
		`{"gatherer": {"policy": {"default": {"target": "fast"}}}}`:         "/gatherer/policy/default/target",
		`{"gatherer": {"policy": {"default": {"priority": 1001}}}}`:         "/gatherer/policy/default/priority",
		`{"gatherer": {"policy": {"rules": [{"client": ["a"]}]}}}`:          "at '/gatherer/policy/rules/0': additional properties 'client'",
		`{"gatherer": {"policy": {"admission": "deny"}}}`:                   "/gatherer/policy/admission",
		`{"replicator": {"lans": "eth0"}}`:                                  "/replicator/lans",
		`{"agent": {"cache": {"size": "4G"}}}`:                              "/agent/cache/size",
		`{"agent": {"image": {"digest": "latest"}}}`:                        "/agent/image/digest",
		`{"agent": {"uplink": "1 Gbit/s"}}`:                                 "/agent/uplink",
		`{"agent": {"uplink": 125000000}}`:                                  "/agent/uplink",
		`{"agent": {"config": {"cahce": {"bytes": "1GiB"}}}}`:               "at '/agent/config': additional properties 'cahce'",
		`{"manager": {"config": {"grpc": {"maxConnections": "many"}}}}`:     "/manager/config/grpc/maxConnections",
		`{"gatherer": {"config": {"exec": "run"}}}`:                         "/gatherer/config/exec",
		`{"replicator": {"config": {"store": {"dir": "/srv"}}}}`:            "at '/replicator/config': additional properties 'store'",
		`{"agent": {"podLabels": {"x": true}}}`:                             "/agent/podLabels/x",
		`{"manager": {"podAnnotations": {"x": 1}}}`:                         "/manager/podAnnotations/x",
		`{"global": {"imagePullSecrets": ["regcred"]}}`:                     "/global/imagePullSecrets/0",
		`{"log": {"level": "verbose"}}`:                                     "/log/level",
		`{"store": {"external": {"endpoints": "https://etcd"}}}`:            "/store/external/endpoints",
		`{"store": {"external": {"endpoints": ["etcd:2379"]}}}`:             "/store/external/endpoints/0",
		`{"store": {"external": {"clientCertificate": true}}}`:              "name the Secret that has it in store.external.tlsSecret",
		`{"replicator": {"sources": ["srv"]}}`:                              "/replicator/sources/0",
		`{"fullnameOverride": "Our_Own"}`:                                   "/fullnameOverride",
		`{"nameOverride": "it's"}`:                                          "/nameOverride",
		`{"namespaceOverride": "a b"}`:                                      "/namespaceOverride",
		`{"envoy": {"rateLimit": {"requestsPerSecond": 0}}}`:                "/envoy/rateLimit/requestsPerSecond",
		`{"monitoring": {"podMonitor": {"interval": "often"}}}`:             "/monitoring/podMonitor/interval",
		`{"monitoring": {"prometheusRule": {"disabled": ["X"]}}}`:           "/monitoring/prometheusRule/disabled/0",
		`{"monitoring": {"prometheusRule": {"disabled": ["GroupcastNo"]}}}`: "has GroupcastNo, which is no alert",
		`{"agent": {"updateStrategy": {"maxUnavailable": 0}}}`:              "/agent/updateStrategy/maxUnavailable",
		`{"replicator": {"updateStrategy": {"maxUnavailable": "0%"}}}`:      "/replicator/updateStrategy/maxUnavailable",
		`{"gatherer": {"storage": {"reserve": "20Gi"}}}`:                    "gatherer.storage.reserve 20Gi leaves nothing of gatherer.storage.size 20Gi",
		`{"gatherer": {"storage": {"size": "200Mi"}}}`:                      "gatherer.storage.reserve 256Mi leaves nothing",
		`{"agent": {"cache": {"medium": "Memory"}}}`:                        "agent.cache.size 4Gi in memory is not less than",
		`{"envoy": {"service": {"port": 7481}}}`:                            "envoy.service.port and envoy.service.httpPort are the same",
		`{"envoy": {"hostnames": ["a_b"]}}`:                                 "/envoy/hostnames/0",
	} {
		var values map[string]any
		if err := json.Unmarshal([]byte(text), &values); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := Render(t.Context(), "release", "default", values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// What the chart installs is what Envoy's own types draw with the same values.
func TestEnvoyIsAsDrawn(t *testing.T) {
	objects, _, _ := rendered(t, "everything", "release", "default")
	o := envoy.Defaults()
	o.Managers, o.TrustDomain, o.Burst, o.PerSecond = "release-groupcast-managers.elsewhere.svc", "groupcast.local", 9, 7
	o.Gatherer, o.GathererPort = "release-groupcast-gatherer.elsewhere.svc", 7420
	want, err := envoy.Files(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if object.Kind.Kind != "ConfigMap" || object.Name != "release-groupcast-envoy" {
			continue
		}
		var config corev1.ConfigMap
		if err := sigsyaml.Unmarshal(object.Text, &config); err != nil {
			t.Fatal(err)
		}
		for name, text := range want {
			if strings.TrimSpace(config.Data[name]) != string(bytes.TrimSpace(text)) {
				t.Errorf("%s is not what Go draws", name)
			}
		}
		return
	}
	t.Error("there is no configuration of Envoy")
}

// Managers and Envoys keep away from nodes and zones where another is. It is asked for apart, for each: a scheduler spreads nothing over
// nodes that lack one of several labels that it is to spread by.
func TestPodsKeepApart(t *testing.T) {
	objects, _, _ := rendered(t, "ha", "gc", "gc")
	apart := make(map[string][]string)
	for _, o := range objects {
		labels, spec := pod(t, o)
		component := labels["app.kubernetes.io/component"]
		if spec == nil || component != "manager" && component != "envoy" {
			continue
		}
		for _, term := range spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			if metav1.FormatLabelSelector(term.PodAffinityTerm.LabelSelector) != metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: selected(labels)}) {
				t.Errorf("%s keeps away from %v", component, term.PodAffinityTerm.LabelSelector)
			}
			apart[component] = append(apart[component], term.PodAffinityTerm.TopologyKey)
		}
		if len(spec.TopologySpreadConstraints) > 0 {
			t.Errorf("%s is spread by %v, too", component, spec.TopologySpreadConstraints)
		}
	}
	for _, component := range []string{"manager", "envoy"} {
		if want := []string{corev1.LabelHostname, corev1.LabelTopologyZone}; !slices.Equal(apart[component], want) {
			t.Errorf("pods of %s are apart by %v, want %v", component, apart[component], want)
		}
	}
}

// selected are the labels that a selector of a pod has.
func selected(labels map[string]string) map[string]string {
	chosen := make(map[string]string)
	for _, key := range []string{"name", "instance", "component"} {
		chosen["app.kubernetes.io/"+key] = labels["app.kubernetes.io/"+key]
	}
	return chosen
}

// "least privilege": nothing but managers may ask the API server for anything, and they may make nothing.
func TestRights(t *testing.T) {
	for profile := range profiles {
		objects, _, _ := rendered(t, profile, "release", "default")
		for _, o := range objects {
			labels, spec := pod(t, o)
			if spec != nil && labels["app.kubernetes.io/component"] != "manager" && (spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken) {
				t.Errorf("%s: %s has a token of the API server", profile, o.Name)
			}
			if o.Kind.Kind != "Role" {
				continue
			}
			var role rbacv1.Role
			if err := sigsyaml.UnmarshalStrict(o.Text, &role); err != nil {
				t.Fatal(err)
			}
			for _, rule := range role.Rules {
				if len(rule.ResourceNames) == 0 || strings.Join(rule.Verbs, " ") != "get patch" {
					t.Errorf("%s: %+v", profile, rule)
				}
			}
		}
	}
}

// Each part can be the only one, in a namespace of its own: it gets in, and every address that is written anywhere
// is that of a Service there.
func TestPartsAlone(t *testing.T) {
	address := regexp.MustCompile(`([a-z0-9-]+)\.([a-z0-9-]+)\.svc\b`)
	parts := []string{"agent", "gatherer", "replicator"}
	for _, alone := range parts {
		values := map[string]any{"namespaceOverride": "elsewhere"}
		for _, part := range parts {
			values[part] = map[string]any{"enabled": part == alone}
		}
		objects, manifest, _, err := Render(t.Context(), "release", "default", values)
		if err != nil {
			t.Fatalf("%s: %v", alone, err)
		}
		services, reviews := map[string]bool{}, false
		for _, o := range objects {
			services[o.Name] = services[o.Name] || o.Kind.Kind == "Service"
			reviews = reviews || o.Kind.Kind == "ClusterRole" && strings.Contains(string(o.Text), "tokenreviews")
		}
		if !reviews {
			t.Errorf("%s alone: the managers may not check its token", alone)
		}
		for _, found := range address.FindAllStringSubmatch(manifest, -1) {
			isRoute := alone != "gatherer" && found[1] == "release-groupcast-gatherer" // Envoy's, to one that may come
			if found[2] != "elsewhere" || !services[found[1]] && !isRoute {
				t.Errorf("%s alone: there is no Service at %s", alone, found[0])
			}
		}
	}
}

// configuration returns the file that a part of a release "release" reads.
func configuration(t *testing.T, values map[string]any, part string) map[string]any {
	t.Helper()
	objects, _, _, err := Render(t.Context(), "release", "default", values)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.Kind.Kind != "ConfigMap" || o.Name != "release-groupcast-"+part {
			continue
		}
		var holder corev1.ConfigMap
		var config map[string]any
		if err := errors.Join(sigsyaml.Unmarshal(o.Text, &holder), sigsyaml.Unmarshal([]byte(holder.Data[part+".yaml"]), &config)); err != nil {
			t.Fatal(err)
		}
		return config
	}
	t.Fatalf("there is no configuration of the %s", part)
	return nil
}

// Agents state the uplink that values give, and look for their own where they give none.
func TestUplinkIsStated(t *testing.T) {
	for stated, want := range map[string]any{"": nil, "1250MB": "1250MB"} {
		config := configuration(t, map[string]any{"agent": map[string]any{"uplink": stated}}, "agent")
		data, _ := config["data"].(map[string]any)
		if data["uplink"] != want || data["listen"] != ":7410" {
			t.Errorf("with an uplink of %q, agents read %v", stated, data)
		}
	}
}

// An uninstallation leaves the CA where the store stays that belongs to it, in an external etcd, and no other object.
func TestWhatStaysAfterUninstallation(t *testing.T) {
	for profile := range profiles {
		var kept, want []string
		if profile == "external-etcd" {
			want = []string{"Secret/release-groupcast-ca"}
		}
		objects, _, _ := rendered(t, profile, "release", "default")
		for _, o := range objects {
			var head struct{ Metadata metav1.ObjectMeta }
			if err := sigsyaml.Unmarshal(o.Text, &head); err != nil {
				t.Fatal(err)
			}
			if head.Metadata.Annotations["helm.sh/resource-policy"] != "" {
				kept = append(kept, o.Kind.Kind+"/"+o.Name)
			}
		}
		if !slices.Equal(kept, want) {
			t.Errorf("%s: %v stay, want %v", profile, kept, want)
		}
	}
}

// Managers check an external etcd by the Secret's ca.crt, and show the certificate beside it if they are to. It is mounted where they look.
func TestEtcdSecretIsUsed(t *testing.T) {
	const dir = "/etc/etcd-tls"
	external := map[string]any{"endpoints": []any{"https://etcd:2379"}, "tlsSecret": "etcd-client"}
	for shown, want := range map[bool]map[string]any{
		false: {"caFile": dir + "/ca.crt"},
		true:  {"caFile": dir + "/ca.crt", "certFile": dir + "/tls.crt", "keyFile": dir + "/tls.key"},
	} {
		external["clientCertificate"] = shown
		store, _ := configuration(t, map[string]any{"store": map[string]any{"external": external}}, "manager")["store"].(map[string]any)
		for _, key := range []string{"caFile", "certFile", "keyFile"} {
			if store[key] != want[key] {
				t.Errorf("with clientCertificate %v, %s is %v, want %v", shown, key, store[key], want[key])
			}
		}
	}
	objects, _, _ := rendered(t, "external-etcd", "release", "default")
	for _, o := range objects {
		labels, spec := pod(t, o)
		isThere := func(m corev1.VolumeMount) bool { return m.MountPath == dir }
		if labels["app.kubernetes.io/component"] == "manager" && !slices.ContainsFunc(spec.Containers[0].VolumeMounts, isThere) {
			t.Errorf("%s %s mounts nothing at %s", o.Kind.Kind, o.Name, dir)
		}
	}
}

// monitor is what a ServiceMonitor or a PodMonitor says of where metrics are.
type monitor struct {
	Spec struct {
		JobLabel string
		Selector struct{ MatchLabels map[string]string }
		// One of them is there.
		Endpoints, PodMetricsEndpoints []struct{ Port, Path string }
	}
}

// Every monitor finds what it is for: a Service, or pods, with its labels and a port of its name; and the label that
// alerts and dashboards know the job by is there.
func TestMonitorsFindTheirPods(t *testing.T) {
	objects, _, _ := rendered(t, "everything", "release", "default")
	ports := func(selector map[string]string, inPods bool) (names []string, component string) {
		for _, o := range objects {
			labels, spec := pod(t, o)
			if inPods != (spec != nil) {
				continue
			}
			var service corev1.Service
			if o.Kind.Kind == "Service" && sigsyaml.Unmarshal(o.Text, &service) == nil {
				labels = service.Labels
			}
			if len(labels) == 0 || !isSubset(selector, labels) {
				continue
			}
			for _, port := range service.Spec.Ports {
				names = append(names, port.Name)
			}
			if inPods {
				for _, port := range spec.Containers[0].Ports {
					names = append(names, port.Name)
				}
			}
			component = labels["app.kubernetes.io/component"]
		}
		return names, component
	}
	monitors := 0
	for _, o := range objects {
		var m monitor
		if o.Kind.Kind != "ServiceMonitor" && o.Kind.Kind != "PodMonitor" {
			continue
		}
		if err := sigsyaml.Unmarshal(o.Text, &m); err != nil {
			t.Fatal(err)
		}
		monitors++
		names, component := ports(m.Spec.Selector.MatchLabels, o.Kind.Kind == "PodMonitor")
		for _, at := range append(m.Spec.Endpoints, m.Spec.PodMetricsEndpoints...) {
			if !slices.Contains(names, at.Port) || at.Path == "" {
				t.Errorf("%s %s: there is no port %q among %v", o.Kind.Kind, o.Name, at.Port, names)
			}
		}
		if m.Spec.JobLabel != "app.kubernetes.io/component" || component == "" || len(m.Spec.Endpoints)+len(m.Spec.PodMetricsEndpoints) == 0 {
			t.Errorf("%s %s: job label %q, component %q", o.Kind.Kind, o.Name, m.Spec.JobLabel, component)
		}
	}
	if monitors != 5 {
		t.Errorf("%d monitors, want those of manager, Envoy, agents, gatherers and replicators", monitors)
	}
}

func isSubset(of, all map[string]string) bool {
	for key, value := range of {
		if all[key] != value {
			return false
		}
	}
	return true
}

// The notes name what to do about what may go wrong, for each part that is installed and can have it, and for no other.
func TestNotes(t *testing.T) {
	const (
		command, security, ports = "kubectl -n models get ds,sts,deploy,pods,pvc,events", "violates PodSecurity", "free ports"
		stays                    = "The Secret release-groupcast-ca stays"
		ofManagers, ofGatherer   = "store.storageClass (managers)", "gatherer.storage.storageClass (gatherer)"
		etcd, selects            = "etcd does not answer", "kubectl get nodes -l"
	)
	selectors := make(map[string]any)
	for _, part := range []string{"manager", "agent", "gatherer", "replicator", "envoy"} {
		selectors[part] = map[string]any{"nodeSelector": map[string]any{"disk": "ssd", "for": part}}
	}
	for name, tt := range map[string]struct {
		values     map[string]any
		has, lacks []string
	}{
		"default": {
			has: []string{
				command, security, ports, ofManagers, ofGatherer, "helm test release -n models", "umask 077", "rollout status ds/release-groupcast-agent", "envoy.service.type=LoadBalancer", "dataPlane.hostNetwork=false", "release-groupcast-operator",
				"kubectl label --overwrite namespace models pod-security.kubernetes.io/enforce=privileged",
				"pods of release-groupcast-agent, release-groupcast-gatherer, release-groupcast-replicator\n",
			},
			lacks: []string{etcd, selects, stays},
		},
		"selectors": {selectors, []string{
			"release-groupcast-manager runs on nodes with these labels alone; without any, its pods stay Pending: kubectl get nodes -l disk=ssd,for=manager\n",
			"release-groupcast-agent runs on nodes with these labels alone; without any, none is DESIRED: kubectl get nodes -l disk=ssd,for=agent\n",
			"release-groupcast-gatherer runs on nodes with these labels alone; without any, its pod stays Pending: kubectl get nodes -l disk=ssd,for=gatherer\n",
			"release-groupcast-replicator runs on nodes with these labels alone; without any, none is DESIRED: kubectl get nodes -l disk=ssd,for=replicator\n",
			"release-groupcast-envoy runs on nodes with these labels alone; without any, its pods stay Pending: kubectl get nodes -l disk=ssd,for=envoy\n",
		}, nil},
		"Envoy outside": {
			map[string]any{"envoy": map[string]any{"service": map[string]any{"type": "NodePort"}}},
			[]string{"release-groupcast-envoy's address"},
			[]string{"envoy.service.type=LoadBalancer"},
		},
		"replicators alone": {
			map[string]any{"agent": map[string]any{"enabled": false}, "gatherer": map[string]any{"enabled": false}},
			[]string{"pods of release-groupcast-replicator\n"},
			[]string{ofGatherer, "release-groupcast-agent"},
		},
		"restricted":    {valuesOf(t, "restricted"), []string{command, ofManagers, ofGatherer}, []string{security, ports}},
		"minimal":       {valuesOf(t, "minimal"), []string{command, ofManagers}, []string{security, ports, ofGatherer}},
		"external etcd": {valuesOf(t, "external-etcd"), []string{command, etcd, ofGatherer, stays}, []string{ofManagers}},
	} {
		_, _, notes, err := Render(t.Context(), "release", "models", tt.values)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.has {
			if !strings.Contains(notes, want) {
				t.Errorf("%s: the notes do not say %q:\n%s", name, want, notes)
			}
		}
		for _, other := range tt.lacks {
			if strings.Contains(notes, other) {
				t.Errorf("%s: the notes say %q:\n%s", name, other, notes)
			}
		}
	}
}

// "each with a runbook page": every alert has one, every page is of an alert, and each is tested firing and quiet.
func TestAlertsHaveRunbooksAndTests(t *testing.T) {
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(Chart, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, For          string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := sigsyaml.Unmarshal(read("files/rules.yaml"), &rules); err != nil {
		t.Fatal(err)
	}
	tests := string(read("files/rules_test.yaml"))
	pages, err := filepath.Glob(filepath.Join(Chart, "..", "..", "docs", "runbooks", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	alerts := 0
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			if rule.Alert == "" {
				continue
			}
			alerts++
			if rule.For == "" || rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				t.Errorf("%s has no for, severity, summary or description", rule.Alert)
			}
			if !slices.ContainsFunc(pages, func(page string) bool { return filepath.Base(page) == rule.Alert+".md" }) {
				t.Errorf("%s has no page in docs/runbooks", rule.Alert)
			}
			for _, way := range []string{" fires\n", " is quiet\n"} {
				if !strings.Contains(tests, "name: "+rule.Alert+way) {
					t.Errorf("no test of rules has %q", rule.Alert+way)
				}
			}
		}
	}
	if len(pages) != alerts {
		t.Errorf("%d pages for %d alerts", len(pages), alerts)
	}
}
