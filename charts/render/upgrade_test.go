package render

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	sigsyaml "sigs.k8s.io/yaml"
)

// An upgrade that would do harm is refused, and the message says what to do: a store is not moved, and managers that have voted are not removed. An
// upgrade is also refused if Kubernetes would refuse it after other objects have been changed, as it does for volumes of another size. All this is
// decided by the objects of this release.
func TestUpgradesThatSpoilAreRefused(t *testing.T) {
	larger := map[string]any{"store": map[string]any{"size": "8Gi"}}
	external := map[string]any{"store": map[string]any{"external": map[string]any{"endpoints": []any{"https://etcd:2379"}}}}
	const claim = "PersistentVolumeClaim/data-release-groupcast-manager-"
	stopped := cluster{"StatefulSet/release-groupcast-manager": {}, claim + "0": {}, claim + "1": {}, claim + "2": {}}
	for name, tt := range map[string]struct {
		cluster cluster
		values  map[string]any
		want    string
	}{
		"nothing there":        {cluster{}, nil, ""},
		"as it is":             {cluster{"StatefulSet/release-groupcast-manager": {replicas: 1}}, nil, ""},
		"one to three":         {cluster{"StatefulSet/release-groupcast-manager": {replicas: 1}}, map[string]any{"manager": map[string]any{"replicas": 3}}, ""},
		"three to one":         {cluster{"StatefulSet/release-groupcast-manager": {replicas: 3}}, nil, "manager.replicas is 1, and the release is to have 3 managers"},
		"none of three":        {stopped, nil, "manager.replicas is 1, and the release is to have 3 managers"},
		"three again":          {stopped, map[string]any{"manager": map[string]any{"replicas": 3}}, ""},
		"three were there":     {cluster{claim + "0": {}, claim + "2": {}}, nil, "delete the claims data-release-groupcast-manager-0"},
		"one was there":        {cluster{claim + "0": {}}, nil, ""},
		"three never were":     {cluster{"StatefulSet/release-groupcast-manager": {replicas: 1}, claim + "2": {}}, nil, ""}, // after a rollback
		"embedded to external": {cluster{"StatefulSet/release-groupcast-manager": {replicas: 1}}, external, "store.external.endpoints: the managers of the release have their store in volumes (StatefulSet release-groupcast-manager)"},
		"external to embedded": {cluster{"Deployment/release-groupcast-manager": {replicas: 1}}, nil, "uninstall, delete the Secret release-groupcast-ca, and install"},
		"external as it is":    {cluster{"Deployment/release-groupcast-manager": {replicas: 3}}, external, ""},
		"volumes as they are":  {cluster{"StatefulSet/release-groupcast-manager": {replicas: 1, size: "4Gi"}, "StatefulSet/release-groupcast-gatherer": {replicas: 1, size: "20Gi"}}, nil, ""},
		"the same otherwise":   {cluster{"StatefulSet/release-groupcast-manager": {replicas: 1, size: "4Gi"}}, map[string]any{"store": map[string]any{"size": "4096Mi"}}, ""},
		"larger volumes":       {cluster{"StatefulSet/release-groupcast-manager": {replicas: 1, size: "4Gi"}}, larger, "store.size is 8Gi, and StatefulSet release-groupcast-manager makes volumes of 4Gi"},
		"a larger gatherer":    {cluster{"StatefulSet/release-groupcast-gatherer": {replicas: 1, size: "20Gi"}}, map[string]any{"gatherer": map[string]any{"storage": map[string]any{"size": "1Ti"}}}, "kubectl -n default delete statefulset release-groupcast-gatherer --cascade=orphan"},
		"no gatherer any more": {cluster{"StatefulSet/release-groupcast-gatherer": {replicas: 1, size: "10Gi"}}, map[string]any{"gatherer": map[string]any{"enabled": false}}, ""},
		"another class":        {cluster{"StatefulSet/release-groupcast-manager": {replicas: 1, size: "4Gi", class: text("fast")}}, nil, `store.storageClass is "", and StatefulSet release-groupcast-manager makes volumes of "fast"`},
		"the same class":       {cluster{"StatefulSet/release-groupcast-manager": {replicas: 1, size: "4Gi", class: text("fast")}}, map[string]any{"store": map[string]any{"storageClass": "fast"}}, ""},
		"no class, as it was":  {cluster{"StatefulSet/release-groupcast-gatherer": {replicas: 1, size: "20Gi", class: text("")}}, storage("-"), ""},
		"gatherer's class":     {cluster{"StatefulSet/release-groupcast-gatherer": {replicas: 1, size: "20Gi"}}, storage("fast"), `gatherer.storage.storageClass is "fast"`},
		"another policy":       {cluster{"StatefulSet/release-groupcast-gatherer": {replicas: 1, policy: "OrderedReady"}}, map[string]any{"gatherer": map[string]any{"podManagementPolicy": "Parallel"}}, "gatherer.podManagementPolicy is Parallel, and the release has OrderedReady"},
		"the policy there":     {cluster{"StatefulSet/release-groupcast-gatherer": {replicas: 1, policy: "OrderedReady"}}, nil, ""},
		"another name":         {cluster{"DaemonSet/release-agent": {name: "groupcast"}}, map[string]any{"nameOverride": "other", "fullnameOverride": "release"}, "nameOverride: the pods of the release are groupcast, those of these values would be other"},
		"another domain":       {cluster{"ConfigMap/release-groupcast-manager": {text: "identity: {trustDomain: old.example}"}}, nil, "trustDomain is groupcast.local, and that of the release is old.example"},
		"the same domain":      {cluster{"ConfigMap/release-groupcast-manager": {text: "identity: {trustDomain: groupcast.local}"}}, nil, ""},
		"fewer revisions":      {cluster{"StatefulSet/release-groupcast-gatherer": {replicas: 1, revisions: 10}}, map[string]any{"revisionHistoryLimit": 3}, "revisionHistoryLimit is 3, and StatefulSet release-groupcast-gatherer has 10"},
		"as many revisions":    {cluster{"StatefulSet/release-groupcast-gatherer": {replicas: 1, revisions: 3}}, map[string]any{"revisionHistoryLimit": 3}, ""},
		"another balancer":     {cluster{"Service/release-groupcast-envoy": balancer("")}, balanced("mine"), `envoy.service.loadBalancerClass begins with "mine", and Service release-groupcast-envoy has ""`},
		"a balancer at last":   {cluster{"Service/release-groupcast-envoy": {service: map[string]any{"type": "ClusterIP"}}}, balanced("mine"), ""},
		"the same balancer":    {cluster{"Service/release-groupcast-envoy": balancer("mine")}, balanced("mine"), ""},
		"a balancer by others": {cluster{"Service/release-groupcast-envoy": balancer("cloud's")}, balanced(""), ""},
		"another family":       {cluster{"Service/release-groupcast-manager": balancer("")}, families("IPv6", "IPv4"), `manager.service.ipFamilies begins with "IPv6", and Service release-groupcast-manager has "IPv4"`},
		"one more family":      {cluster{"Service/release-groupcast-manager": balancer("")}, families("IPv4", "IPv6"), ""},
		"another release":      {cluster{"StatefulSet/other-groupcast-manager": {replicas: 3}}, external, ""},
	} {
		err := upgrade(t, tt.cluster, tt.values)
		if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// An upgrade with --reuse-values renders with only the defaults of the earlier chart, and installs the same as one with
// the defaults of this chart.
func TestReusedValuesInstallTheSame(t *testing.T) {
	earlier := former(t)
	for _, profile := range []string{"default", "restricted", "everything"} {
		loaded, err := loader.Load(Chart)
		if err != nil {
			t.Fatal(err)
		}
		loaded.Values = earlier.Values
		_, reused, _, err := RenderChart(t.Context(), loaded, "release", "default", valuesOf(t, profile))
		if err != nil {
			t.Fatalf("%s: %v", profile, err)
		}
		if _, fresh, _ := rendered(t, profile, "release", "default"); reused != fresh {
			t.Errorf("%s: with the values of %s, %s", profile, earlier.Metadata.Version, firstDifference(fresh, reused))
		}
	}
}

// A version of the chart alone, with the programs of the one before, replaces no pods: replications would lose those of replicators.
func TestAnotherChartReplacesNoPods(t *testing.T) {
	next, err := loader.Load(Chart)
	if err != nil {
		t.Fatal(err)
	}
	next.Metadata.Version += ".next"
	for profile := range profiles {
		objects, manifest, _, err := RenderChart(t.Context(), next, "release", "default", valuesOf(t, profile))
		if err != nil {
			t.Fatal(err)
		}
		before, _, _ := rendered(t, profile, "release", "default")
		for i, o := range objects {
			var now, was struct {
				Spec struct{ Template map[string]any }
			}
			for of, into := range map[*Object]any{&o: &now, &before[i]: &was} {
				if err := sigsyaml.Unmarshal(of.Text, into); err != nil {
					t.Fatal(err)
				}
			}
			if !reflect.DeepEqual(now, was) {
				t.Errorf("%s: the pods of %s %s change with the chart's version", profile, o.Kind.Kind, o.Name)
			}
		}
		if !strings.Contains(manifest, next.Metadata.Version) {
			t.Errorf("%s: nothing says which chart it is of", profile)
		}
	}
}

// former returns the chart's last version, which `make former-chart` has kept.
func former(t *testing.T) *chart.Chart {
	t.Helper()
	kept, err := filepath.Glob(filepath.Join(Chart, "..", "..", "e2e", "cluster", "testdata", "groupcast-*.tgz"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("charts of earlier versions are %v: %v", kept, err)
	}
	earlier, err := loader.Load(kept[0])
	if err != nil {
		t.Fatal(err)
	}
	return earlier
}

// firstDifference returns the first lines in which two manifests differ.
func firstDifference(one, other string) string {
	ours, theirs := strings.Split(one, "\n"), strings.Split(other, "\n")
	for i := range min(len(ours), len(theirs)) {
		if ours[i] != theirs[i] {
			return fmt.Sprintf("line %d is %q instead of %q", i+1, theirs[i], ours[i])
		}
	}
	return fmt.Sprintf("there are %d lines instead of %d", len(theirs), len(ours))
}

// upgrade renders the chart for a namespace that already has some objects.
func upgrade(t *testing.T, there cluster, values map[string]any) error {
	t.Helper()
	loaded, err := loader.Load(Chart)
	if err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(loaded, values, common.ReleaseOptions{Name: "release", Namespace: "default", IsUpgrade: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = engine.RenderWithClientProvider(loaded, all, there)
	return err
}

func text(s string) *string { return &s }

// storage returns values with a storage class for the gatherer's volume.
func storage(class string) map[string]any {
	return map[string]any{"gatherer": map[string]any{"storage": map[string]any{"storageClass": class}}}
}

// cluster holds the objects of a namespace, by kind and name.
type cluster map[string]thing

// thing is the part that is looked at of a workload, or of the managers' ConfigMap.
type thing struct {
	replicas     int64
	size         string  // of each one's volume; empty if it has none
	class        *string // of that volume
	policy, name string
	text         string
	revisions    int64
	service      map[string]any
}

// balancer returns a Service that a load balancer of a class leads to.
func balancer(class string) thing {
	spec := map[string]any{"type": "LoadBalancer", "ipFamilies": []any{"IPv4"}}
	if class != "" {
		spec["loadBalancerClass"] = class
	}
	return thing{service: spec}
}

func balanced(class string) map[string]any {
	return map[string]any{"envoy": map[string]any{"service": map[string]any{"type": "LoadBalancer", "loadBalancerClass": class}}}
}

func families(all ...any) map[string]any {
	return map[string]any{"manager": map[string]any{"service": map[string]any{"ipFamilyPolicy": "PreferDualStack", "ipFamilies": all}}}
}

func (o thing) object() map[string]any {
	if o.service != nil {
		return map[string]any{"spec": o.service}
	}
	spec := map[string]any{"replicas": o.replicas}
	if o.revisions > 0 {
		spec["revisionHistoryLimit"] = o.revisions
	}
	if o.size != "" {
		volume := map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": o.size}}}
		if o.class != nil {
			volume["storageClassName"] = *o.class
		}
		spec["volumeClaimTemplates"] = []any{map[string]any{"spec": volume}}
	}
	if o.policy != "" {
		spec["podManagementPolicy"] = o.policy
	}
	if o.name != "" {
		spec["selector"] = map[string]any{"matchLabels": map[string]any{"app.kubernetes.io/name": o.name}}
	}
	return map[string]any{"spec": spec, "data": map[string]any{"manager.yaml": o.text}}
}

// GetClientFor implements engine.ClientProvider.
func (c cluster) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	return resource{cluster: c, kind: schema.FromAPIVersionAndKind(apiVersion, kind)}, true, nil
}

// resource answers what templates look up of one kind.
type resource struct {
	dynamic.NamespaceableResourceInterface
	cluster cluster
	kind    schema.GroupVersionKind
}

func (r resource) Namespace(string) dynamic.ResourceInterface { return r }

func (r resource) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	of, there := r.cluster[r.kind.Kind+"/"+name]
	if !there {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: r.kind.Group, Resource: r.kind.Kind}, name)
	}
	return &unstructured.Unstructured{Object: of.object()}, nil
}
