package render

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

var parts = []string{"manager", "agent", "gatherer", "replicator", "envoy"}

// podsOf returns the pods of all parts, with the volumes that are made for each.
func podsOf(t *testing.T, objects []Object) map[string]*corev1.PodSpec {
	t.Helper()
	all := make(map[string]*corev1.PodSpec)
	for _, o := range objects {
		labels, spec := pod(t, o)
		if part := labels["app.kubernetes.io/component"]; spec != nil && part != "test" {
			if o.Kind.Kind == "StatefulSet" {
				var set appsv1.StatefulSet
				decode(t, o, &set)
				for _, claim := range set.Spec.VolumeClaimTemplates {
					spec.Volumes = append(spec.Volumes, corev1.Volume{Name: claim.Name})
				}
			}
			all[part] = spec
		}
	}
	return all
}

// "extraEnv/extraArgs/extraVolumes/extraContainers … per component": each part has what values add to it, behind what is the chart's own.
func TestMoreOfEachPart(t *testing.T) {
	values := make(map[string]any)
	for _, part := range parts {
		values[part] = map[string]any{
			"extraArgs":       []any{"--more=" + part},
			"extraEnv":        []any{map[string]any{"name": "MORE", "value": part}},
			"extraContainers": []any{map[string]any{"name": "more", "image": "example.org/" + part, "ports": []any{map[string]any{"name": "more", "containerPort": 9000}}}},
		}
	}
	objects, _, _, err := Render(t.Context(), "release", "default", values)
	if err != nil {
		t.Fatal(err)
	}
	plain, _, _ := rendered(t, "default", "release", "default")
	before, pods := podsOf(t, plain), podsOf(t, objects)
	for _, part := range parts {
		was, is := before[part].Containers[0], pods[part].Containers[0]
		if !slices.Equal(is.Args, append(slices.Clone(was.Args), "--more="+part)) {
			t.Errorf("the arguments of %s are %q", part, is.Args)
		}
		if len(is.Env) != len(was.Env)+1 || is.Env[len(is.Env)-1] != (corev1.EnvVar{Name: "MORE", Value: part}) {
			t.Errorf("the variables of %s are %+v", part, is.Env)
		}
		if all := pods[part].Containers; len(all) != 2 || all[0].Name != was.Name || all[1].Image != "example.org/"+part {
			t.Errorf("the containers of %s are %+v", part, all)
		}
	}
}

// A variable that values have, too, is there once, as values say.
func TestGivenVariablesWin(t *testing.T) {
	plain, _, _ := rendered(t, "default", "release", "default")
	values := make(map[string]any)
	for part, spec := range podsOf(t, plain) {
		var all []any
		for _, own := range spec.Containers[0].Env {
			all = append(all, map[string]any{"name": own.Name, "value": "given"})
		}
		values[part] = map[string]any{"extraEnv": all}
	}
	objects, _, _, err := Render(t.Context(), "release", "default", values)
	if err != nil {
		t.Fatal(err)
	}
	for part, spec := range podsOf(t, objects) {
		given, _ := values[part].(map[string]any)
		all, _ := given["extraEnv"].([]any)
		if len(spec.Containers[0].Env) != len(all) || slices.ContainsFunc(spec.Containers[0].Env, func(v corev1.EnvVar) bool { return v.Value != "given" || v.ValueFrom != nil }) {
			t.Errorf("the variables of %s are %+v", part, spec.Containers[0].Env)
		}
	}
}

// Kubernetes puts the value of a variable into those behind it alone: whichever values replace, each stands behind those that it refers to.
func TestVariablesStandBehindWhatTheyReferTo(t *testing.T) {
	field := map[string]any{"fieldRef": map[string]any{"fieldPath": "status.hostIP"}}
	for _, replaced := range []map[string]any{{"valueFrom": field}, {"value": "$(GIVEN)"}} {
		for _, profile := range []string{"default", "external-etcd"} {
			values := valuesOf(t, profile)
			plain, _, _ := rendered(t, profile, "release", "default")
			for part, spec := range podsOf(t, plain) {
				var all []any
				for _, own := range spec.Containers[0].Env {
					all = append(all, map[string]any{"name": "REFERS_TO_" + own.Name, "value": "$(" + own.Name + ")"})
				}
				all = append(all, map[string]any{"name": "NODE_IP", "valueFrom": field}, map[string]any{"name": "GIVEN", "value": "$(NODE_IP)"})
				for _, own := range spec.Containers[0].Env {
					if own.ValueFrom != nil {
						all = append(all, merged(map[string]any{"name": own.Name}, replaced))
					}
				}
				of, _ := values[part].(map[string]any)
				values[part] = merged(of, map[string]any{"extraEnv": all})
			}
			objects, _, _, err := Render(t.Context(), "release", "default", values)
			if err != nil {
				t.Fatal(err)
			}
			for part, spec := range podsOf(t, objects) {
				if early := refersAhead(spec.Containers[0].Env); len(early) > 0 {
					t.Errorf("%s, %s, with variables replaced by %v: %q refer to what is behind them: %+v", profile, part, replaced, early, spec.Containers[0].Env)
				}
			}
		}
	}
}

// merged returns what two maps hold, the second before the first.
func merged(a, b map[string]any) map[string]any {
	all := make(map[string]any)
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

// refersAhead returns the variables that refer to one that is not before them.
func refersAhead(all []corev1.EnvVar) (names []string) {
	before := make(map[string]bool)
	for _, v := range all {
		for _, reference := range regexp.MustCompile(`\$\(([^)]+)\)`).FindAllStringSubmatch(v.Value, -1) {
			if !before[reference[1]] {
				names = append(names, v.Name)
			}
		}
		before[v.Name] = true
	}
	return names
}

// What values add to a pod takes the place of nothing that the chart has there, whatever that is: it is refused by the name of the value.
func TestNothingTakesThePlaceOfTheCharts(t *testing.T) {
	loaded, err := loader.Load(Chart)
	if err != nil {
		t.Fatal(err)
	}
	for _, profile := range []string{"everything", "external-etcd"} {
		chosen := valuesOf(t, profile)
		for _, of := range chosen {
			if of, is := of.(map[string]any); is {
				delete(of, "extraArgs") // programs take some flags several times
			}
		}
		objects, _, _, err := Render(t.Context(), "release", "default", chosen)
		if err != nil {
			t.Fatal(err)
		}
		for part, spec := range podsOf(t, objects) {
			for _, p := range slices.Concat(placesOf(spec), argumentsOf(spec.Containers[0])) {
				values := valuesOf(t, profile)
				add(values, part, p)
				if _, err := templates(loaded, values); err == nil || !strings.Contains(err.Error(), part+"."+p.key) || !strings.Contains(err.Error(), p.name) {
					t.Errorf("%s: with %v in %s.%s: %v", profile, p.another, part, p.key, err)
				}
			}
		}
	}
}

// place is something that a pod has, by a name, and another that would take its place, in the list of values for that.
type place struct {
	key, name string
	another   any
}

// placesOf returns the names of volumes and containers, where volumes are mounted, and the ports.
func placesOf(spec *corev1.PodSpec) (all []place) {
	for _, v := range spec.Volumes {
		all = append(all, place{"extraVolumes", v.Name, map[string]any{"name": v.Name, "emptyDir": map[string]any{}}})
	}
	for _, m := range spec.Containers[0].VolumeMounts {
		all = append(all, place{"extraVolumeMounts", path.Clean(m.MountPath), map[string]any{"name": spec.Volumes[0].Name, "mountPath": m.MountPath + "/"}})
	}
	for _, c := range spec.Containers {
		all = append(all, place{"extraContainers", c.Name, map[string]any{"name": c.Name, "image": "another"}})
		for _, port := range c.Ports {
			protocol := cmp.Or(port.Protocol, corev1.ProtocolTCP)
			all = append(
				all, place{"extraContainers", port.Name, another(map[string]any{"name": port.Name, "containerPort": 9999})},
				place{"extraContainers", fmt.Sprintf("%d/%s", port.ContainerPort, protocol), another(map[string]any{"containerPort": port.ContainerPort, "protocol": string(protocol)})},
			)
		}
	}
	return all
}

// another returns a container with a port.
func another(port map[string]any) map[string]any {
	return map[string]any{"name": "another", "image": "another", "ports": []any{port}}
}

// argumentsOf returns the flags that a container has, and those of the settings that it has as variables.
func argumentsOf(c corev1.Container) (all []place) {
	for _, argument := range c.Args {
		if flag, _, _ := strings.Cut(argument, "="); strings.HasPrefix(flag, "--") {
			all = append(all, place{"extraArgs", flag, flag})
		}
	}
	for _, v := range c.Env {
		if setting, is := strings.CutPrefix(v.Name, "GROUPCAST_"); is {
			flag := "--" + strings.ToLower(strings.ReplaceAll(setting, "_", "-"))
			all = append(all, place{"extraArgs", flag, flag + "=another"})
		}
	}
	return all
}

// add adds what would take a place to the values of a part.
func add(values map[string]any, part string, p place) {
	of, _ := values[part].(map[string]any)
	if of == nil {
		of = make(map[string]any)
		values[part] = of
	}
	there, _ := of[p.key].([]any)
	of[p.key] = append(slices.Clone(there), p.another)
}

// What is not in the chart's way is let through.
func TestMoreThatIsInNobodysWay(t *testing.T) {
	for name, values := range map[string]map[string]any{
		"a setting that the chart leaves alone": {"agent": map[string]any{"extraArgs": []any{"--data-stripes=2"}}},
		"what only the pod knows":               {"agent": map[string]any{"extraEnv": []any{map[string]any{"name": "GROUPCAST_ZONE", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "metadata.labels['zone']"}}}}}},
		"the same port of the other protocol":   {"gatherer": map[string]any{"extraContainers": []any{another(map[string]any{"containerPort": 7420, "protocol": "UDP"})}}},
		"a mount below one of the chart's":      {"replicator": map[string]any{"extraVolumes": []any{map[string]any{"name": "more", "emptyDir": map[string]any{}}}, "extraVolumeMounts": []any{map[string]any{"name": "more", "mountPath": "/var/lib/groupcast/replicas"}}}},
		"a volume that is mounted twice":        {"manager": map[string]any{"extraContainers": []any{map[string]any{"name": "more", "image": "more", "volumeMounts": []any{map[string]any{"name": "tmp", "mountPath": "/tmp"}}}}}},
		"a label of everything, and of one":     {"commonLabels": map[string]any{"team": "a"}, "agent": map[string]any{"podLabels": map[string]any{"team": "b"}}},
		"of a part that there is not":           {"gatherer": map[string]any{"enabled": false, "extraVolumes": []any{map[string]any{"name": "data"}}, "podLabels": map[string]any{"app.kubernetes.io/component": "x"}}},
		"of Envoy that there is not":            {"envoy": map[string]any{"enabled": false, "extraArgs": []any{"--version"}, "podAnnotations": map[string]any{"checksum/config": "x"}}},
		"labels that are the chart's":           {"commonLabels": map[string]any{"app.kubernetes.io/name": "groupcast", "app.kubernetes.io/instance": "release"}, "agent": map[string]any{"podLabels": map[string]any{"app.kubernetes.io/component": "agent"}}},
		"listeners of a Gateway and of a set":   {"gateway": map[string]any{"enabled": true, "grpc": listenerOf("ListenerSet"), "gathering": listenerOf("Gateway")}},
		"a flag of Envoy's that begins alike":   {"envoy": map[string]any{"extraArgs": []any{"--log-format %v", "--component-log-level", "http:debug"}}},
		"what was taken out":                    {"commonLabels": map[string]any{"app.kubernetes.io/component": nil}, "envoy": map[string]any{"podAnnotations": map[string]any{"checksum/config": nil}}},
	} {
		if _, _, _, err := Render(t.Context(), "release", "default", values); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An agent's zone is its node's, by the label that Kubernetes copies to pods, unless values name one for all agents, or leave it to measurements. A variable
// that values have wins, and is there once.
func TestZonesOfNodes(t *testing.T) {
	const own = "metadata.labels['topology.kubernetes.io/zone']"
	for _, tt := range []struct {
		name, field, config string
		values              map[string]any
	}{
		{"by default", own, "", map[string]any{}},
		{"with a zone of all agents", "", "zone: eu-1", map[string]any{"zone": "eu-1"}},
		{"with a zone in config", "", "zone: eu-2", map[string]any{"zone": "eu-1", "config": map[string]any{"zone": "eu-2"}}},
		{"with none in config", "", `zone: ""`, map[string]any{"config": map[string]any{"zone": ""}}},
		{"with another label", "metadata.labels['rack']", "", map[string]any{"extraEnv": []any{map[string]any{"name": "GROUPCAST_ZONE", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "metadata.labels['rack']"}}}}}},
	} {
		objects, _, _, err := Render(t.Context(), "release", "default", map[string]any{"agent": tt.values})
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		var fields []string
		for _, v := range podsOf(t, objects)["agent"].Containers[0].Env {
			if v.Name == "GROUPCAST_ZONE" {
				fields = append(fields, v.ValueFrom.FieldRef.FieldPath)
			}
		}
		if strings.Join(fields, " ") != tt.field {
			t.Errorf("%s: the zone is of %q, want %q", tt.name, fields, tt.field)
		}
		var configs []string
		for _, o := range objects {
			if o.Kind.Kind == "ConfigMap" && strings.HasSuffix(o.Name, "-agent") {
				configs = regexp.MustCompile(`(?m)^ *zone: .*$`).FindAllString(string(o.Text), -1)
			}
		}
		if strings.TrimSpace(strings.Join(configs, " ")) != tt.config {
			t.Errorf("%s: the file has %q, want %q", tt.name, configs, tt.config)
		}
	}
}

// listenerOf returns a route from the same listener by its name of a kind.
func listenerOf(kind string) map[string]any {
	return map[string]any{"parentRefs": []any{map[string]any{"kind": kind, "name": "edge", "sectionName": "tcp"}}}
}

// Where the nodes differ in how their data is reached, only their pods know it. Then there are no hosts beside that, for the programs take one of both.
func TestAddressesOfNodes(t *testing.T) {
	addresses := []any{
		map[string]any{"name": "NODE_IP", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "status.hostIP"}}},
		map[string]any{"name": "GROUPCAST_DATA_ADDRESSES", "value": "$(NODE_IP):31410"},
	}
	objects, _, _, err := Render(t.Context(), "release", "default", map[string]any{"agent": map[string]any{"extraEnv": addresses}, "gatherer": map[string]any{"extraEnv": addresses}})
	if err != nil {
		t.Fatal(err)
	}
	pods := podsOf(t, objects)
	for _, part := range []string{"agent", "gatherer"} {
		var names []string
		for _, v := range pods[part].Containers[0].Env {
			names = append(names, v.Name)
		}
		if !slices.Contains(names, "GROUPCAST_DATA_ADDRESSES") || slices.Contains(names, "GROUPCAST_DATA_HOSTS") {
			t.Errorf("the variables of %s are %q", part, names)
		}
	}
}
