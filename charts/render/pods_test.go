package render

import (
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/json"
	sigsyaml "sigs.k8s.io/yaml"
)

// decode reads an object like an API server that accepts no unknown fields; the case of names matters.
func decode(t *testing.T, o Object, into any) {
	t.Helper()
	text, err := sigsyaml.YAMLToJSONStrict(o.Text)
	if err != nil {
		t.Fatalf("%s %s: %v", o.Kind.Kind, o.Name, err)
	}
	unknown, err := json.UnmarshalStrict(text, into)
	if err != nil || len(unknown) > 0 {
		t.Errorf("%s %s: %v, %v", o.Kind.Kind, o.Name, unknown, err)
	}
}

// pod returns the pod of an object that has one.
func pod(t *testing.T, o Object) (meta map[string]string, spec *corev1.PodSpec) {
	t.Helper()
	strict := func(into any) {
		t.Helper()
		decode(t, o, into)
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
	case "ServiceMonitor":
		strict(new(monitoringv1.ServiceMonitor))
	case "PodMonitor":
		strict(new(monitoringv1.PodMonitor))
	case "PrometheusRule":
		strict(new(monitoringv1.PrometheusRule))
	case "TCPRoute":
		strict(new(gatewayv1.TCPRoute))
	case "TLSRoute":
		strict(new(gatewayv1.TLSRoute))
	}
	return nil, nil
}

// "A test asserts the exact pod-security level of each pod for each values file"; and in every profile
// each container runs without root and capabilities, and with a read-only root file system.
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
			spec.HostNetwork = false // the level of agents apart from the nodes' network
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

// A pod gets the time for which it is told to wait for calls in progress, and some more: otherwise it would be killed in the middle. Agents and
// replicators do not wait; values of an older chart that had that key for them are accepted.
func TestGraceFollowsStopWait(t *testing.T) {
	for _, tt := range []struct {
		value, config string
		wait          int64 // seconds
	}{
		{value: "10s", wait: 10},
		{value: "5m", wait: 300},
		{value: "1500ms", wait: 2},
		{value: "0s", wait: 0},
		{value: "10s", config: "2m", wait: 120},
		{value: "10s", config: "1h1m1.5s", wait: 3662},
	} {
		values := make(map[string]any)
		margins := map[string]int64{"manager": 50, "agent": 35, "gatherer": 35, "replicator": 35}
		for part := range margins {
			of := map[string]any{"stopWait": tt.value}
			if tt.config != "" {
				of["config"] = map[string]any{"stopWait": tt.config}
			}
			if part != "manager" {
				of["enabled"] = true
			}
			values[part] = of
		}
		objects, _, _, err := Render(t.Context(), "release", "default", values)
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for _, o := range objects {
			labels, spec := pod(t, o)
			margin, isOurs := margins[labels["app.kubernetes.io/component"]]
			if spec == nil || !isOurs || o.Kind.Kind == "Pod" {
				continue
			}
			seen++
			want := tt.wait + margin
			if o.Kind.Kind == "DaemonSet" && tt.config == "" {
				want = margin
			}
			if got := *spec.TerminationGracePeriodSeconds; got != want {
				t.Errorf("%+v: %s has %d s to stop, want %d", tt, o.Name, got, want)
			}
		}
		if seen != len(margins) {
			t.Errorf("%d pods were seen, want %d", seen, len(margins))
		}
	}
}

// A change of what a pod reads when it starts restarts the pod; no other change does.
func TestChangesStartPodsAnew(t *testing.T) {
	before := checksums(t, map[string]any{})
	for of, values := range map[string]map[string]any{
		"manager":    {"manager": map[string]any{"maxConnections": 9}},
		"agent":      {"agent": map[string]any{"zone": "a"}},
		"gatherer":   {"gatherer": map[string]any{"policy": map[string]any{"default": map[string]any{"max": "10MB"}}}},
		"replicator": {"replicator": map[string]any{"lans": []any{"rack1=10.1.0.0/16"}}},
		"envoy":      {"envoy": map[string]any{"rateLimit": map[string]any{"burst": 9}}},
	} {
		for component, after := range checksums(t, values) {
			if isChanged := after != before[component]; isChanged != (component == of) || after == "" {
				t.Errorf("with %v, %s is started anew: %v", values, component, isChanged)
			}
		}
	}
}

// checksums returns what pods say about their configuration in an annotation, by component.
func checksums(t *testing.T, values map[string]any) map[string]string {
	t.Helper()
	objects, _, _, err := Render(t.Context(), "release", "default", values)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, o := range objects {
		var workload struct {
			Spec struct {
				Template struct{ Metadata metav1.ObjectMeta }
			}
		}
		if labels, spec := pod(t, o); spec != nil && o.Kind.Kind != "Pod" {
			if err := sigsyaml.Unmarshal(o.Text, &workload); err != nil {
				t.Fatal(err)
			}
			all[labels["app.kubernetes.io/component"]] = workload.Spec.Template.Metadata.Annotations["checksum/config"]
		}
	}
	return all
}

// "`helm test` … a real upload": each pod uploads a different file. The gatherer would not be sent what it already has.
func TestUploadsWhatIsNotThereYet(t *testing.T) {
	objects, _, _ := rendered(t, "default", "release", "default")
	at := slices.IndexFunc(objects, func(o Object) bool { return o.Kind.Kind == "Pod" && strings.HasSuffix(o.Name, "-test-gathering") })
	if at < 0 {
		t.Fatal("there is no test of the gatherer")
	}
	_, spec := pod(t, objects[at])
	args := spec.Containers[0].Args
	file := args[slices.Index(args, "upload")+1]
	for _, m := range spec.Containers[0].VolumeMounts {
		for _, v := range spec.Volumes {
			if m.MountPath != file || v.Name != m.Name {
				continue
			}
			if v.DownwardAPI == nil || v.DownwardAPI.Items[0].FieldRef.FieldPath != "metadata.uid" || m.SubPath != v.DownwardAPI.Items[0].Path {
				t.Errorf("%s is of %+v", file, v)
			}
			return
		}
	}
	t.Errorf("nothing is mounted at %s", file)
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

// Managers and Envoys keep away from nodes and zones where another of them is. Each is asked for separately: if a scheduler is to spread
// by several labels at once, nodes that lack one of them do not count.
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

// Images are for Linux: in a cluster that also has other nodes, no pod waits for one of those, whatever else is
// required of nodes.
func TestPodsAreForLinux(t *testing.T) {
	for _, profile := range []string{"default", "everything"} {
		objects, _, _ := rendered(t, profile, "release", "default")
		for _, o := range objects {
			if _, spec := pod(t, o); spec != nil && spec.NodeSelector[corev1.LabelOSStable] != "linux" {
				t.Errorf("%s: %s %s is for nodes with %v", profile, o.Kind.Kind, o.Name, spec.NodeSelector)
			}
		}
	}
}

// Every part has the priority class that values give it.
func TestPriorityIsGiven(t *testing.T) {
	values := make(map[string]any)
	for _, part := range []string{"manager", "agent", "gatherer", "replicator", "envoy"} {
		values[part] = map[string]any{"priorityClassName": "of-" + part}
	}
	objects, _, _, err := Render(t.Context(), "release", "default", values)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		labels, spec := pod(t, o)
		if part := labels["app.kubernetes.io/component"]; spec != nil && part != "test" && spec.PriorityClassName != "of-"+part {
			t.Errorf("%s has the priority class %q", part, spec.PriorityClassName)
		}
	}
}

// If all nodes have taints, or there are several kinds of nodes, tests run where values say.
func TestTestsGoWhereTheyMay(t *testing.T) {
	objects, _, _, err := Render(t.Context(), "release", "default", map[string]any{"tests": map[string]any{
		"tolerations":  []any{map[string]any{"key": "pool", "operator": "Exists"}},
		"nodeSelector": map[string]any{"pool": "groupcast"}, "priorityClassName": "low",
	}})
	if err != nil {
		t.Fatal(err)
	}
	tests := 0
	for _, o := range objects {
		labels, spec := pod(t, o)
		if spec == nil || labels["app.kubernetes.io/component"] != "test" {
			continue
		}
		tests++
		if len(spec.Tolerations) != 1 || spec.NodeSelector["pool"] != "groupcast" || spec.NodeSelector["kubernetes.io/os"] != "linux" || spec.PriorityClassName != "low" {
			t.Errorf("%s: %+v %v %q", o.Name, spec.Tolerations, spec.NodeSelector, spec.PriorityClassName)
		}
	}
	if tests != 2 {
		t.Errorf("there are %d tests", tests)
	}
}

// selected returns the labels by which a pod is selected.
func selected(labels map[string]string) map[string]string {
	chosen := make(map[string]string)
	for _, key := range []string{"name", "instance", "component"} {
		chosen["app.kubernetes.io/"+key] = labels["app.kubernetes.io/"+key]
	}
	return chosen
}

// "least privilege": only managers may ask the API server for anything; they may fill what is theirs, and ask whose a
// token is, but create nothing.
func TestRights(t *testing.T) {
	for profile := range profiles {
		objects, _, _ := rendered(t, profile, "release", "default")
		for _, o := range objects {
			labels, spec := pod(t, o)
			if spec != nil && labels["app.kubernetes.io/component"] != "manager" && (spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken) {
				t.Errorf("%s: %s has a token of the API server", profile, o.Name)
			}
			var problem error
			switch o.Kind.Kind {
			case "Role":
				problem = onlyFills(o.Text)
			case "ClusterRole":
				problem = onlyReviews(o.Text)
			case "RoleBinding":
				problem = isManagers[rbacv1.RoleBinding](o.Text, func(b rbacv1.RoleBinding) []rbacv1.Subject { return b.Subjects })
			case "ClusterRoleBinding":
				problem = isManagers[rbacv1.ClusterRoleBinding](o.Text, func(b rbacv1.ClusterRoleBinding) []rbacv1.Subject { return b.Subjects })
			}
			if problem != nil {
				t.Errorf("%s: %s %s: %v", profile, o.Kind.Kind, o.Name, problem)
			}
		}
	}
}

// onlyFills returns what a Role allows beyond filling named Secrets and ConfigMaps.
func onlyFills(text []byte) error {
	var role rbacv1.Role
	if err := sigsyaml.UnmarshalStrict(text, &role); err != nil {
		return err
	}
	for _, rule := range role.Rules {
		of := strings.Join(rule.Resources, " ")
		if len(rule.ResourceNames) == 0 || strings.Join(rule.Verbs, " ") != "get patch" || strings.Join(rule.APIGroups, " ") != "" || of != "secrets" && of != "configmaps" {
			return fmt.Errorf("it lets them %+v", rule)
		}
	}
	return nil
}

// onlyReviews returns what a ClusterRole allows beyond asking whose a token is.
func onlyReviews(text []byte) error {
	var role rbacv1.ClusterRole
	if err := sigsyaml.UnmarshalStrict(text, &role); err != nil {
		return err
	}
	want := []rbacv1.PolicyRule{{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}}}
	if !reflect.DeepEqual(role.Rules, want) || role.AggregationRule != nil {
		return fmt.Errorf("it lets them %+v", role.Rules)
	}
	return nil
}

// isManagers returns who has a right, if anybody but the managers has it.
func isManagers[B any](text []byte, subjects func(B) []rbacv1.Subject) error {
	var binding B
	if err := sigsyaml.UnmarshalStrict(text, &binding); err != nil {
		return err
	}
	if who := subjects(binding); len(who) != 1 || who[0].Kind != "ServiceAccount" || !strings.HasSuffix(who[0].Name, "-manager") || who[0].Namespace == "" {
		return fmt.Errorf("it is for %+v", who)
	}
	return nil
}

// With an external etcd, managers tell each other their pods' addresses, IPv4 and IPv6.
func TestManagersTellTheirAddress(t *testing.T) {
	objects, _, _ := rendered(t, "external-etcd", "release", "default")
	told := ""
	for _, o := range objects {
		labels, spec := pod(t, o)
		if labels["app.kubernetes.io/component"] != "manager" || spec == nil {
			continue
		}
		for _, variable := range spec.Containers[0].Env {
			if variable.Name == "GROUPCAST_ADDRESS" {
				told = variable.Value
			}
		}
	}
	for _, ip := range []string{"10.244.0.7", "fd00:10:244::7"} {
		address := strings.ReplaceAll(told, "$(POD_IP)", ip)
		if host, port, err := net.SplitHostPort(address); err != nil || host != ip || port != "7400" {
			t.Errorf("the manager at %s tells others %q: %v", ip, address, err)
		}
	}
}
