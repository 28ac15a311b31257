package render

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// routesOf returns what the chart routes from Gateways: the kind of each route, its listener, its names, and the Service and port to which it leads, by
// its name. A Service or port that there is not is an error.
func routesOf(t *testing.T, objects []Object) map[string]string {
	t.Helper()
	ports := make(map[string]bool)
	for _, o := range objects {
		if o.Kind.Kind == "Service" {
			var service corev1.Service
			decode(t, o, &service)
			for _, port := range service.Spec.Ports {
				ports[fmt.Sprintf("%s:%d", o.Name, port.Port)] = true
			}
		}
	}
	all := make(map[string]string)
	add := func(o Object, parents []gatewayv1.ParentReference, names []gatewayv1.Hostname, to []gatewayv1.BackendRef) {
		if len(parents) != 1 || len(to) != 1 {
			t.Fatalf("%s leads from %v to %v", o.Name, parents, to)
		}
		backend := fmt.Sprintf("%s:%d", to[0].Name, *to[0].Port)
		if !ports[backend] {
			t.Errorf("%s leads to %s, which there is not", o.Name, backend)
		}
		all[o.Name] = fmt.Sprintf("%s %s/%s %v %s", o.Kind.Kind, parents[0].Name, *parents[0].SectionName, names, backend)
	}
	for _, o := range objects {
		if o.Kind.Group == gatewayv1.GroupName && o.Kind.Version != "v1" {
			t.Errorf("%s is of %s", o.Name, o.Kind.Version)
		}
		switch o.Kind.Kind {
		case "TCPRoute":
			var route gatewayv1.TCPRoute
			decode(t, o, &route)
			add(o, route.Spec.ParentRefs, nil, route.Spec.Rules[0].BackendRefs)
		case "TLSRoute":
			var route gatewayv1.TLSRoute
			decode(t, o, &route)
			add(o, route.Spec.ParentRefs, route.Spec.Hostnames, route.Spec.Rules[0].BackendRefs)
		}
	}
	return all
}

// From listeners of a Gateway, TLS goes through to Envoy's Service, or to those of managers and gatherer without Envoy. Nothing is routed that nobody has asked for, and
// no route ends TLS.
func TestRoutesOfGateways(t *testing.T) {
	for name, tt := range map[string]struct {
		values string
		want   map[string]string
	}{
		"none": {`{}`, map[string]string{}},
		"off":  {`{"gateway": {"enabled": false, "grpc": {"parentRefs": [{"name": "edge", "sectionName": "a"}]}}}`, map[string]string{}},
		"all": {
			`{"gateway": {"enabled": true, "grpc": {"parentRefs": [{"name": "edge", "sectionName": "a"}]}, "http": {"parentRefs": [{"name": "edge", "sectionName": "b"}], "hostnames": ["api.example.org"]}, "gathering": {"parentRefs": [{"name": "edge", "sectionName": "c"}]}}}`,
			map[string]string{
				"release-groupcast-grpc":      "TCPRoute edge/a [] release-groupcast-envoy:7480",
				"release-groupcast-http":      "TLSRoute edge/b [api.example.org] release-groupcast-envoy:7481",
				"release-groupcast-gathering": "TCPRoute edge/c [] release-groupcast-envoy:7483",
			},
		},
		"HTTP by address": {
			`{"gateway": {"enabled": true, "http": {"parentRefs": [{"name": "edge", "sectionName": "b"}]}}, "envoy": {"service": {"httpPort": 443}}}`,
			map[string]string{"release-groupcast-http": "TCPRoute edge/b [] release-groupcast-envoy:443"},
		},
		"without Envoy": {
			`{"gateway": {"enabled": true, "grpc": {"parentRefs": [{"name": "edge", "sectionName": "a"}]}, "gathering": {"parentRefs": [{"name": "edge", "sectionName": "c"}]}}, "envoy": {"enabled": false}, "manager": {"service": {"port": 443}}}`,
			map[string]string{
				"release-groupcast-grpc":      "TCPRoute edge/a [] release-groupcast-manager:443",
				"release-groupcast-gathering": "TCPRoute edge/c [] release-groupcast-gatherer:7420",
			},
		},
	} {
		var values map[string]any
		if err := json.Unmarshal([]byte(tt.values), &values); err != nil {
			t.Fatal(err)
		}
		objects, _, notes, err := Render(t.Context(), "release", "default", values)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := routesOf(t, objects); fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
		if says := strings.Contains(notes, "tcproutes,tlsroutes"); says != (len(tt.want) > 0) {
			t.Errorf("%s: the notes are\n%s", name, notes)
		}
	}
}

// Callers that come by a name through a Gateway see it in Envoy's certificate, once.
func TestNamesOfRoutesAreCertified(t *testing.T) {
	for enabled, want := range map[bool]int{true: 1, false: 0} {
		settings, _ := configuration(t, map[string]any{
			"envoy": map[string]any{"hostnames": []any{"other.example.org"}},
			"gateway": map[string]any{"enabled": enabled, "http": map[string]any{
				"parentRefs": []any{map[string]any{"name": "edge", "sectionName": "b"}}, "hostnames": []any{"api.example.org", "other.example.org"},
			}},
		}, "manager")["kubernetes"].(map[string]any)
		names, _ := settings["gatewayNames"].([]any)
		count := func(name string) int {
			return len(slices.DeleteFunc(slices.Clone(names), func(other any) bool { return other != name }))
		}
		if count("api.example.org") != want || count("other.example.org") != 1 {
			t.Errorf("with routes %v, Envoy's names are %v", enabled, names)
		}
	}
}
