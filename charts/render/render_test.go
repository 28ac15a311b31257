package render

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/pod-security-admission/api"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/groupcast/groupcast/charts/envoy"
)

// profiles are the files of ci/, each with the exact pod security level of every pod.
var profiles = map[string]map[string]api.Level{
	"default":       {"manager": api.LevelRestricted, "agent": api.LevelPrivileged, "gatherer": api.LevelPrivileged, "replicator": api.LevelPrivileged, "envoy": api.LevelRestricted, "test": api.LevelRestricted},
	"restricted":    {"manager": api.LevelRestricted, "agent": api.LevelRestricted, "gatherer": api.LevelRestricted, "replicator": api.LevelRestricted, "envoy": api.LevelRestricted, "test": api.LevelRestricted},
	"ha":            {"manager": api.LevelRestricted, "agent": api.LevelPrivileged, "gatherer": api.LevelPrivileged, "replicator": api.LevelPrivileged, "envoy": api.LevelRestricted, "test": api.LevelRestricted},
	"external-etcd": {"manager": api.LevelRestricted, "agent": api.LevelPrivileged, "gatherer": api.LevelPrivileged, "replicator": api.LevelPrivileged, "envoy": api.LevelRestricted, "test": api.LevelRestricted},
	"minimal":       {"manager": api.LevelRestricted},
	"everything":    {"manager": api.LevelRestricted, "agent": api.LevelPrivileged, "gatherer": api.LevelPrivileged, "replicator": api.LevelPrivileged, "envoy": api.LevelRestricted, "test": api.LevelRestricted},
}

// Each file of ci/ is tested.
func TestProfilesAreTheFiles(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(Chart, "ci", "*-values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, file := range files {
		named = append(named, strings.TrimSuffix(filepath.Base(file), "-values.yaml"))
	}
	if tested := slices.Sorted(maps.Keys(profiles)); !slices.Equal(tested, named) {
		t.Errorf("tested are %v, and there are %v", tested, named)
	}
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

// "works in any namespace, twice in one cluster": no two cluster-wide objects have the same name, and nothing is in
// another namespace.
func TestTwiceInOneCluster(t *testing.T) {
	seen := make(map[string]string)
	for _, at := range [][2]string{{"one", "a"}, {"two", "a"}, {"one", "b"}, {"a", "team"}, {"groupcast", "team-a"}} {
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

// Long names that differ only at their end belong to different releases in one namespace; a name that is short enough
// stays as it is.
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

// What the chart installs is the same as what is drawn with Envoy's own types and the same values.
func TestEnvoyIsAsDrawn(t *testing.T) {
	objects, _, _ := rendered(t, "everything", "release", "default")
	o := envoy.Defaults()
	o.Managers, o.TrustDomain, o.Burst, o.PerSecond = "release-groupcast-managers.elsewhere.svc", "groupcast.local", 9, 7
	o.Heap = 512 << 20 * 2 / 3
	o.Gatherer, o.GathererPort, o.Listen = "release-groupcast-gatherer.elsewhere.svc", 7420, "0.0.0.0"
	contracts, err := os.ReadFile("../groupcast/files/groupcast.binpb")
	if err != nil {
		t.Fatal(err)
	}
	want, err := envoy.Files(o, contracts)
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

// An uninstallation leaves the CA if the store that belongs to it stays, in an external etcd; no other object stays.
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

// Changes are listed in the format that catalogues of charts read.
func TestChangesAreListed(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(Chart, "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var chart struct{ Annotations map[string]string }
	if err := sigsyaml.Unmarshal(text, &chart); err != nil {
		t.Fatal(err)
	}
	var changes []struct{ Kind, Description string }
	if err := sigsyaml.UnmarshalStrict([]byte(chart.Annotations["artifacthub.io/changes"]), &changes); err != nil || len(changes) == 0 {
		t.Fatalf("%d changes, %v", len(changes), err)
	}
	for _, one := range changes {
		if !slices.Contains([]string{"added", "changed", "deprecated", "removed", "fixed", "security"}, one.Kind) || one.Description == "" {
			t.Errorf("a change is %+v", one)
		}
	}
}

// The notes say what to do about problems that may occur, for each installed part that can have them, and for no other.
func TestNotes(t *testing.T) {
	const (
		command, security, ports = "kubectl -n models get ds,sts,deploy,pods,pvc,events", "violates PodSecurity", "free ports"
		stays                    = "The Secret release-groupcast-ca stays"
		ofManagers, ofGatherer   = "store.storageClass (managers)", "gatherer.storage.storageClass (gatherer)"
		majority                 = "where two are on one, losing it loses the majority"
		etcd, selects            = "etcd does not answer", "kubectl get nodes -l"
		delivery, upload, checks = "by a real delivery", "a real upload\n", "have the API server check tokens"
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
				"as release-groupcast in the namespace models:\n", command, "groupcast status --kubernetes models --release release\n", security, ports, ofManagers, ofGatherer, "helm test release -n models", "umask 077", "rollout status ds/release-groupcast-agent", "envoy.service.type=LoadBalancer", "dataPlane.hostNetwork=false", "release-groupcast-operator",
				"kubectl label --overwrite namespace models pod-security.kubernetes.io/enforce=privileged",
				"pods of release-groupcast-agent, release-groupcast-gatherer, release-groupcast-replicator\n",
			},
			lacks: []string{etcd, selects, stays, "being installed", majority},
		},
		"tests": {nil, []string{delivery, upload, checks, "helm test release -n models --logs\n"}, nil},
		"tests elsewhere": { // helm looks for logs only in the release's namespace
			map[string]any{"namespaceOverride": "elsewhere"},
			[]string{"helm test release -n models\n", "kubectl -n elsewhere logs POD", "-n elsewhere get secret"},
			[]string{"models --logs"},
		},
		"no agents":   {map[string]any{"agent": map[string]any{"enabled": false}}, []string{"helm test", "works, by " + upload}, []string{delivery}},
		"no gatherer": {map[string]any{"gatherer": map[string]any{"enabled": false}}, []string{"helm test", delivery}, []string{upload}},
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
			[]string{ofGatherer, "release-groupcast-agent", "helm test", delivery, upload},
		},
		"restricted":    {valuesOf(t, "restricted"), []string{command, ofManagers, ofGatherer}, []string{security, ports}},
		"minimal":       {valuesOf(t, "minimal"), []string{command, ofManagers}, []string{security, ports, ofGatherer, "helm test", checks}},
		"external etcd": {valuesOf(t, "external-etcd"), []string{command, etcd, ofGatherer, stays}, []string{ofManagers, majority}},
		"three managers": {
			map[string]any{"manager": map[string]any{"replicas": 3}},
			[]string{majority, "kubectl -n models get pods -l app.kubernetes.io/instance=release,app.kubernetes.io/component=manager -o wide\n"},
			nil,
		},
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
