package render

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Where the cluster chooses users, as with OpenShift's restricted-v2, no pod asks for one; everything else that the
// restricted standard demands is there.
func TestUsersOfTheClustersChoice(t *testing.T) {
	chosen := map[string]any{"runAsUser": nil, "runAsGroup": nil, "fsGroup": nil}
	objects, _, _, err := Render(t.Context(), "release", "default", map[string]any{"podSecurityContext": chosen, "dataPlane": map[string]any{"hostNetwork": false}})
	if err != nil {
		t.Fatal(err)
	}
	pods := 0
	for _, o := range objects {
		_, spec := pod(t, o)
		if spec == nil {
			continue
		}
		pods++
		is, container := spec.SecurityContext, spec.Containers[0].SecurityContext
		if is.RunAsUser != nil || is.RunAsGroup != nil || is.FSGroup != nil || container.RunAsUser != nil {
			t.Errorf("%s asks for a user or a group: %+v", o.Name, is)
		}
		if !*is.RunAsNonRoot || is.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || !*container.ReadOnlyRootFilesystem || *container.AllowPrivilegeEscalation ||
			!slices.Equal(container.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("%s: %+v %+v", o.Name, is, container)
		}
	}
	if pods != 7 { // with two tests
		t.Errorf("there are %d kinds of pods", pods)
	}
}

// Every part accepts additional volumes, and every workload keeps as many old versions as values say.
func TestMoreVolumes(t *testing.T) {
	values := map[string]any{"revisionHistoryLimit": 0}
	parts := []string{"manager", "agent", "gatherer", "replicator", "envoy"}
	for _, part := range parts {
		values[part] = map[string]any{
			"extraVolumes":      []any{map[string]any{"name": "more", "configMap": map[string]any{"name": "of-" + part}}},
			"extraVolumeMounts": []any{map[string]any{"name": "more", "mountPath": "/more"}},
		}
	}
	objects, _, _, err := Render(t.Context(), "release", "default", values)
	if err != nil {
		t.Fatal(err)
	}
	has := make(map[string]bool)
	for _, o := range objects {
		labels, spec := pod(t, o)
		part := labels["app.kubernetes.io/component"]
		if spec == nil || part == "test" {
			continue
		}
		has[part] = slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.ConfigMap != nil && v.ConfigMap.Name == "of-"+part }) &&
			slices.ContainsFunc(spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/more" })
		if kept := revisions(t, o); kept == nil || *kept != 0 {
			t.Errorf("%s keeps %v versions", o.Name, kept)
		}
	}
	for _, part := range parts {
		if !has[part] {
			t.Errorf("%s has no more volumes", part)
		}
	}
}

// Replicas are in the volume that values name. By default that has no size, which the kubelet would not keep.
func TestReplicatorsVolume(t *testing.T) {
	claim := map[string]any{"ephemeral": map[string]any{"volumeClaimTemplate": map[string]any{"spec": map[string]any{
		"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "50Gi"}},
	}}}}
	for name, volume := range map[string]map[string]any{"default": nil, "claim": claim} {
		objects, _, _, err := Render(t.Context(), "release", "default", map[string]any{"replicator": map[string]any{"volume": volume}})
		if err != nil {
			t.Fatal(err)
		}
		spec := podsOf(t, objects)["replicator"]
		is := spec.Volumes[slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == "data" })]
		if volume == nil && (is.EmptyDir == nil || is.EmptyDir.SizeLimit != nil) {
			t.Errorf("%s: %+v", name, is)
		}
		if volume != nil && (is.Ephemeral == nil || is.Ephemeral.VolumeClaimTemplate.Spec.Resources.Requests.Storage().String() != "50Gi") {
			t.Errorf("%s: %+v", name, is)
		}
	}
}

// revisions returns how many versions of a workload are kept.
func revisions(t *testing.T, o Object) *int32 {
	t.Helper()
	switch o.Kind.Kind {
	case "DaemonSet":
		var set appsv1.DaemonSet
		decode(t, o, &set)
		return set.Spec.RevisionHistoryLimit
	case "StatefulSet":
		var set appsv1.StatefulSet
		decode(t, o, &set)
		return set.Spec.RevisionHistoryLimit
	}
	var deployment appsv1.Deployment
	decode(t, o, &deployment)
	return deployment.Spec.RevisionHistoryLimit
}

// Envoy and gatherers are spread as values say.
func TestSpread(t *testing.T) {
	constraint := []any{map[string]any{"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}}
	values := map[string]any{"envoy": map[string]any{"topologySpreadConstraints": constraint}, "gatherer": map[string]any{"topologySpreadConstraints": constraint}}
	objects, _, _, err := Render(t.Context(), "release", "default", values)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		labels, spec := pod(t, o)
		part := labels["app.kubernetes.io/component"]
		if spec == nil || part == "test" {
			continue
		}
		if spreads := len(spec.TopologySpreadConstraints) == 1 && spec.TopologySpreadConstraints[0].TopologyKey == "rack"; spreads != (values[part] != nil) {
			t.Errorf("%s: %+v", o.Name, spec.TopologySpreadConstraints)
		}
	}
}

// Services through which others come in have what clusters offer for that; what is of no use to their type is refused.
func TestServices(t *testing.T) {
	parts := []string{"manager", "gatherer", "envoy"}
	for _, part := range parts {
		service := map[string]any{
			"type": "LoadBalancer", "ipFamilyPolicy": "PreferDualStack", "ipFamilies": []any{"IPv6", "IPv4"},
			"loadBalancerClass": "example.org/one", "loadBalancerSourceRanges": []any{"203.0.113.0/24", "2001:db8::/32"}, "externalTrafficPolicy": "Local", "nodePort": 30400,
		}
		objects, _, _, err := Render(t.Context(), "release", "default", map[string]any{part: map[string]any{"service": service}})
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(objects, func(o Object) bool { return o.Kind.Kind == "Service" && o.Name == "release-groupcast-"+part })
		var made corev1.Service
		decode(t, objects[at], &made)
		is := made.Spec
		if is.Type != corev1.ServiceTypeLoadBalancer || *is.IPFamilyPolicy != corev1.IPFamilyPolicyPreferDualStack || !slices.Equal(is.IPFamilies, []corev1.IPFamily{"IPv6", "IPv4"}) ||
			*is.LoadBalancerClass != "example.org/one" || len(is.LoadBalancerSourceRanges) != 2 || is.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal || is.Ports[0].NodePort != 30400 {
			t.Errorf("%s: %+v", part, is)
		}
		for key, of := range map[string]string{"loadBalancerClass": "NodePort", "loadBalancerSourceRanges": "NodePort", "externalTrafficPolicy": "ClusterIP", "nodePort": "ClusterIP"} {
			values := map[string]any{part: map[string]any{"service": map[string]any{"type": of, key: service[key]}}}
			if _, _, _, err := Render(t.Context(), "release", "default", values); err == nil || !strings.Contains(err.Error(), part+".service."+key+" is ") {
				t.Errorf("%s: %s of a %s: %v", part, key, of, err)
			}
		}
	}
}
