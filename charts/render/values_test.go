package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	corev1 "k8s.io/api/core/v1"
	sigsyaml "sigs.k8s.io/yaml"
)

// "strict `values.schema.json` with negative tests": the message names the path.
func TestBadValuesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"manager": {"replica": 3}}`:    "replica",
		`{"manager": {"replicas": "3"}}`: "/manager/replicas",
		`{"store": {"external": {"endpoints": ["http://e:2379"], "tlsSecret": "s"}}}`:                                    "store.external.tlsSecret is for TLS, and http://e:2379 is spoken to without: name it with https://",
		`{"store": {"external": {"endpoints": ["http://e:2379"]}}, "manager": {"config": {"store": {"caFile": "/ca"}}}}`: "manager.config.store.caFile",
		`{"store": {"external": {"endpoints": ["https://e:2379", "http://f:2379"]}}}`:                                    "store.external.endpoints has https://e:2379 and http://f:2379: want one scheme",
		`{"agent": {"config": {"cache": {"bytes": "64GiB"}}}}`:                                                           "agent.config.cache.bytes is set, and the volume, and what memory it may use, go by agent.cache.size: set that",
		`{"agent": {"extraEnv": [{"name": "GROUPCAST_CACHE_BYTES", "value": "64GiB"}]}}`:                                 "agent.extraEnv has GROUPCAST_CACHE_BYTES",
		`{"agent": {"extraArgs": ["--cache-bytes=64GiB"]}}`:                                                              "agent.extraArgs has --cache-bytes, which the chart itself gives to the program, or with which it ends: set agent.cache.size",
		`{"gatherer": {"config": {"trustDomain": "other.example"}}}`:                                                     "gatherer.config.trustDomain is other.example, and trustDomain is groupcast.local",
		`{"manager": {"config": {"identity": {"trustDomain": "other.example"}}}}`:                                        "manager.config.identity.trustDomain is other.example, and trustDomain is groupcast.local",
		`{"manager": {"replicas": 2}}`:                                                                                   "with the embedded store it can be 1 or 3",
		`{"dataplane": {"hostNetwork": false}}`:                                                                          "dataplane",
		`{"dataPlane": {"hostNetwork": "no"}}`:                                                                           "/dataPlane/hostNetwork",
		`{"agent": {"port": 80}}`:                                                                                        "/agent/port",
		`{"agent": {"config": {"admin": {"listen": "127.0.0.1:7411"}}}}`:                                                 "agent.config.admin.listen is 127.0.0.1:7411, where nobody finds it",
		`{"agent": {"config": {"data": {"listen": ":7500"}}}}`:                                                           "For another port, set agent.port",
		`{"manager": {"config": {"grpc": {"listen": "0.0.0.0:7500"}}}}`:                                                  "others use manager.service.port",
		`{"gatherer": {"config": {"grpc": {"listen": "[::1]:7420"}}}}`:                                                   "gatherer.config.grpc.listen is [::1]:7420",
		`{"agent": {"port": 7411}}`:                                                                                      "agent.port and agent.adminPort are the same",
		`{"gatherer": {"dataPort": 7410}}`:                                                                               "agent.port and gatherer.dataPort are the same",
		`{"manager": {"memberAccounts": ["training/publisher"]}}`:                                                        "/manager/memberAccounts/0",
		`{"manager": {"memberAccounts": [{"account": "a/b"}]}}`:                                                          "at '/manager/memberAccounts/0': missing property 'groups'",
		`{"manager": {"memberAccounts": [{"groups": ["g"]}]}}`:                                                           "at '/manager/memberAccounts/0': missing property 'account'",
		`{"manager": {"memberAccounts": [{"account": "b", "groups": ["g"]}]}}`:                                           "/manager/memberAccounts/0/account",
		`{"manager": {"memberAccounts": [{"account": "a/b=g", "groups": ["g"]}]}}`:                                       "/manager/memberAccounts/0/account",
		`{"manager": {"memberAccounts": [{"account": "a/b", "groups": []}]}}`:                                            "/manager/memberAccounts/0/groups",
		`{"manager": {"memberAccounts": [{"account": "a/b", "groups": ["G"]}]}}`:                                         "/manager/memberAccounts/0/groups/0",
		`{"manager": {"memberAccounts": [{"account": "a/b", "groups": ["g"], "name": "x"}]}}`:                            "additional properties 'name'",
		`{"gatherer": {"controller": "best"}}`:                                                                           "/gatherer/controller",
		`{"gatherer": {"policy": {"defaults": {}}}}`:                                                                     "at '/gatherer/policy': additional properties 'defaults'",
		`{"gatherer": {"policy": {"default": {"targt": "1MB"}}}}`:                                                        "at '/gatherer/policy/default': additional properties 'targt'",
		`{"gatherer": {"policy": {"default": {"target": "fast"}}}}`:                                                      "/gatherer/policy/default/target",
		`{"gatherer": {"policy": {"default": {"priority": 1001}}}}`:                                                      "/gatherer/policy/default/priority",
		`{"gatherer": {"policy": {"rules": [{"client": ["a"]}]}}}`:                                                       "at '/gatherer/policy/rules/0': additional properties 'client'",
		`{"gatherer": {"policy": {"admission": "deny"}}}`:                                                                "/gatherer/policy/admission",
		`{"replicator": {"lans": "eth0"}}`:                                                                               "/replicator/lans",
		`{"replicator": {"lans": ["rack1=172.18.0.0"]}}`:                                                                 "replicator.lans has rack1=172.18.0.0, which is one address: want the network with its prefix",
		`{"replicator": {"lans": ["eth0", "fd00::1"]}}`:                                                                  "replicator.lans has fd00::1, which is one address",
		`{"agent": {"cache": {"size": "4G"}}}`:                                                                           "/agent/cache/size",
		`{"agent": {"image": {"digest": "latest"}}}`:                                                                     "/agent/image/digest",
		`{"agent": {"uplink": "1 Gbit/s"}}`:                                                                              "/agent/uplink",
		`{"agent": {"uplink": 125000000}}`:                                                                               "/agent/uplink",
		`{"agent": {"config": {"cahce": {"bytes": "1GiB"}}}}`:                                                            "at '/agent/config': additional properties 'cahce'",
		`{"manager": {"config": {"grpc": {"maxConnections": "many"}}}}`:                                                  "/manager/config/grpc/maxConnections",
		`{"gatherer": {"config": {"exec": "run"}}}`:                                                                      "/gatherer/config/exec",
		`{"replicator": {"config": {"store": {"dir": "/srv"}}}}`:                                                         "at '/replicator/config': additional properties 'store'",
		`{"agent": {"podLabels": {"x": true}}}`:                                                                          "/agent/podLabels/x",
		`{"manager": {"podAnnotations": {"x": 1}}}`:                                                                      "/manager/podAnnotations/x",
		`{"global": {"imagePullSecrets": ["regcred"]}}`:                                                                  "/global/imagePullSecrets/0",
		`{"log": {"level": "verbose"}}`:                                                                                  "/log/level",
		`{"store": {"external": {"endpoints": "https://etcd"}}}`:                                                         "/store/external/endpoints",
		`{"store": {"external": {"endpoints": ["etcd:2379"]}}}`:                                                          "/store/external/endpoints/0",
		`{"store": {"external": {"clientCertificate": true}}}`:                                                           "name the Secret that has it in store.external.tlsSecret",
		`{"replicator": {"sources": ["srv"]}}`:                                                                           "/replicator/sources/0",
		`{"fullnameOverride": "Our_Own"}`:                                                                                "/fullnameOverride",
		`{"nameOverride": "it's"}`:                                                                                       "/nameOverride",
		`{"namespaceOverride": "a b"}`:                                                                                   "/namespaceOverride",
		`{"envoy": {"rateLimit": {"requestsPerSecond": 0}}}`:                                                             "/envoy/rateLimit/requestsPerSecond",
		`{"monitoring": {"podMonitor": {"interval": "often"}}}`:                                                          "/monitoring/podMonitor/interval",
		`{"monitoring": {"podMonitor": {"relabelings": ["drop"]}}}`:                                                      "/monitoring/podMonitor/relabelings/0",
		`{"monitoring": {"serviceMonitor": {"metricRelabelings": {"action": "drop"}}}}`:                                  "/monitoring/serviceMonitor/metricRelabelings",
		`{"monitoring": {"prometheusRule": {"disabled": ["X"]}}}`:                                                        "/monitoring/prometheusRule/disabled/0",
		`{"monitoring": {"prometheusRule": {"disabled": ["GroupcastNo"]}}}`:                                              "has GroupcastNo, which is no alert",
		`{"agent": {"updateStrategy": {"maxUnavailable": 0}}}`:                                                           "/agent/updateStrategy/maxUnavailable",
		`{"replicator": {"updateStrategy": {"maxUnavailable": "0%"}}}`:                                                   "/replicator/updateStrategy/maxUnavailable",
		`{"gatherer": {"storage": {"reserve": "20Gi"}}}`:                                                                 "gatherer.storage.reserve 20Gi leaves nothing of gatherer.storage.size 20Gi",
		`{"gatherer": {"storage": {"size": "200Mi"}}}`:                                                                   "gatherer.storage.reserve 256Mi leaves nothing",
		`{"agent": {"cache": {"medium": "Memory"}}}`:                                                                     "agent.cache.size 4Gi in memory leaves the agents less than 64Mi of their limit",
		`{"envoy": {"service": {"port": 7481}}}`:                                                                         "envoy.service.port and envoy.service.httpPort are the same",
		`{"envoy": {"service": {"nodePort": 30480}}}`:                                                                    "envoy.service.nodePort is 30480, and a Service of type ClusterIP has no ports of the nodes",
		`{"envoy": {"service": {"gatheringNodePort": 30480}}}`:                                                           "envoy.service.gatheringNodePort is 30480",
		`{"envoy": {"service": {"type": "NodePort", "nodePort": 30480, "httpNodePort": 30480}}}`:                         "envoy.service.nodePort and envoy.service.httpNodePort are the same",
		`{"dataPlane": {"hostNetwork": false}, "gatherer": {"dataPort": 7420}}`:                                          "gatherer.port and gatherer.dataPort are the same",
		`{"envoy": {"listen": "127.0.0.1"}}`:                                                                             "/envoy/listen",
		`{"networkPolicy": {"dnsPorts": []}}`:                                                                            "/networkPolicy/dnsPorts",
		`{"networkPolicy": {"apiServerPorts": ["https"]}}`:                                                               "/networkPolicy/apiServerPorts/0",
		`{"store": {"size": "0Gi"}}`:                                                                                     "/store/size",
		`{"store": {"size": "1Mi"}}`:                                                                                     "/store/size",
		`{"store": {"size": "100Mi"}}`:                                                                                   "/store/size",
		`{"store": {"size": "255Mi"}}`:                                                                                   "/store/size",
		`{"agent": {"cache": {"size": "0Mi"}}}`:                                                                          "/agent/cache/size",
		`{"gatherer": {"storage": {"size": "0Gi"}}}`:                                                                     "/gatherer/storage/size",
		`{"gatherer": {"config": {"stopWait": "soon"}}}`:                                                                 "/gatherer/config/stopWait",
		`{"agent": {"config": {"cache": {"bytes": "much"}}}}`:                                                            "/agent/config/cache/bytes",
		`{"envoy": {"hostnames": ["a_b"]}}`:                                                                              "/envoy/hostnames/0",
		`{"gateway": {"enabled": true}}`:                                                                                 "gateway.enabled is true, and no listener is named",
		`{"gateway": {"grpc": {"parentRefs": ["edge"]}}}`:                                                                "/gateway/grpc/parentRefs/0",
		`{"gateway": {"grpc": {"parentRefs": [{"name": "edge"}]}}}`:                                                      "at '/gateway/grpc/parentRefs/0': missing property 'sectionName'",
		`{"gateway": {"grpc": {"parentRefs": [{"name": "edge", "section": "a"}]}}}`:                                      "additional properties 'section'",
		`{"gateway": {"grpc": {"hostnames": ["a.example.org"]}}}`:                                                        "additional properties 'hostnames'",
		`{"gateway": {"http": {"parentRefs": [{"name": "edge", "sectionName": "a"}], "hostnames": ["10.0.0.1"]}}}`:       "/gateway/http/hostnames/0",
		`{"gateway": {"http": {"hostnames": ["a.example.org"]}}}`:                                                        "gateway.http.hostnames is set, and gateway.http.parentRefs is empty",
		`{"gateway": {"enabled": true, "grpc": {"parentRefs": [{"name": "edge", "sectionName": "a"}]}, "gathering": {"parentRefs": [{"name": "edge", "namespace": "default", "sectionName": "a"}]}}}`: "gateway.gathering.parentRefs and gateway.grpc.parentRefs have the same listener, a of Gateway default/edge",
		`{"gateway": {"enabled": true, "http": {"parentRefs": [{"name": "edge", "sectionName": "a"}]}}, "envoy": {"enabled": false}}`:                                                                 "gateway.http.parentRefs is set, and envoy.enabled is false",
		`{"gateway": {"enabled": true, "gathering": {"parentRefs": [{"name": "edge", "sectionName": "a"}]}}, "gatherer": {"enabled": false}}`:                                                         "gateway.gathering.parentRefs is set, and gatherer.enabled is false",
		`{"agent": {"extraArgs": ["--zone", "a"]}}`:                                                                             "/agent/extraArgs/1",
		`{"agent": {"extraArgs": "--zone=a"}}`:                                                                                  "/agent/extraArgs",
		`{"agent": {"extraArgs": ["--data-listen=:7500"]}}`:                                                                     "agent.extraArgs has --data-listen, which the chart itself gives to the program, or with which it ends: set data.listen in agent.config, or the value that is for it",
		`{"agent": {"extraArgs": ["--service-account-token-file=/x"]}}`:                                                         "set serviceAccountTokenFile in agent.config",
		`{"agent": {"extraArgs": ["--data-addresses=a:1"]}}`:                                                                    "set data.addresses in agent.config",
		`{"agent": {"extraArgs": ["--node=one"]}}`:                                                                              "agent.extraArgs has --node",
		`{"agent": {"extraArgs": ["--zone=a"]}}`:                                                                                "agent.extraArgs has --zone, which the chart itself gives to the program, or with which it ends: set zone in agent.config, or the value that is for it",
		`{"agent": {"extraArgs": ["--print-config"]}}`:                                                                          "agent.extraArgs has --print-config",
		`{"agent": {"extraArgs": ["--stop-wait=5m"]}}`:                                                                          "set stopWait in agent.config",
		`{"manager": {"extraArgs": ["--kubernetes-ca-config-map=x"]}}`:                                                          "set kubernetes.caConfigMap in manager.config",
		`{"agent": {"extraEnv": [{"name": "GROUPCAST_ADMIN_LISTEN", "value": ":1"}]}}`:                                          "agent.extraEnv has GROUPCAST_ADMIN_LISTEN",
		`{"gatherer": {"extraEnv": [{"name": "GROUPCAST_STOP_WAIT", "value": "5m"}]}}`:                                          "gatherer.extraEnv has GROUPCAST_STOP_WAIT",
		`{"manager": {"extraEnv": [{"name": "GROUPCAST_IDENTITY_TRUST_DOMAIN", "value": "x"}]}}`:                                "set it in manager.config",
		`{"agent": {"extraEnv": [{"name": "GROUPCAST_DATA_ADDRESSES", "value": "x:1"}], "config": {"data": {"hosts": ["x"]}}}}`: "agent.extraEnv has GROUPCAST_DATA_ADDRESSES, and agent.config.data.hosts is set: leave one of them out",
		`{"agent": {"podLabels": {"app.kubernetes.io/instance": "another"}}}`:                                                   "agent.podLabels has app.kubernetes.io/instance",
		`{"commonLabels": {"app.kubernetes.io/component": "agent"}}`:                                                            "commonLabels has app.kubernetes.io/component",
		`{"manager": {"extraEnv": [{"value": "x"}]}}`:                                                                           "at '/manager/extraEnv/0': missing property 'name'",
		`{"envoy": {"extraArgs": ["-l debug"]}}`:                                                                                "envoy.extraArgs has -l debug",
		`{"envoy": {"extraArgs": ["--log-level=debug"]}}`:                                                                       "envoy.extraArgs has --log-level=debug",
		`{"envoy": {"extraArgs": ["-l", "debug"]}}`:                                                                             "envoy.extraArgs has -l",
		`{"envoy": {"extraContainers": [{"name": "more"}]}}`:                                                                    "at '/envoy/extraContainers/0': missing property 'image'",
		`{"replicator": {"extraVolumes": ["images"]}}`:                                                                          "/replicator/extraVolumes/0",
		`{"replicator": {"extraVolumeMounts": [{"name": "images"}]}}`:                                                           "at '/replicator/extraVolumeMounts/0': missing property 'mountPath'",
		`{"replicator": {"extraVolumeMounts": [{"name": "images", "mountPath": "/x"}]}}`:                                        "replicator.extraVolumeMounts mounts images, and there is no volume of that name in the pod: add it to replicator.extraVolumes",
		`{"envoy": {"extraContainers": [{"name": "more", "image": "x", "volumeMounts": [{"name": "y", "mountPath": "/y"}]}]}}`:  "envoy.extraContainers: more mounts y",
		`{"agent": {"podLabels": {"app.kubernetes.io/component": "x"}}}`:                                                        "agent.podLabels has app.kubernetes.io/component, by which the chart finds its pods",
		`{"commonLabels": {"app.kubernetes.io/name": "x"}}`:                                                                     "commonLabels has app.kubernetes.io/name",
		`{"envoy": {"podAnnotations": {"checksum/config": "x"}}}`:                                                               "envoy.podAnnotations has checksum/config",
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

// Ports that never meet may be the same: those of parts that are switched off, and those of different pods if each has
// an address of its own.
func TestPortsThatNeverMeetMayBeTheSame(t *testing.T) {
	for _, text := range []string{
		`{"dataPlane": {"hostNetwork": false}, "gatherer": {"dataPort": 7410}, "replicator": {"adminPort": 7411}}`,
		`{"gatherer": {"enabled": false, "dataPort": 7410}}`,
		`{"agent": {"config": {"data": {"listen": "[::]:7410"}}}}`, // the address at which it listens is another matter
		`{"envoy": {"service": {"type": "NodePort", "nodePort": 30480}}}`,
		`{"gatherer": {"enabled": false}, "envoy": {"service": {"gatheringNodePort": 30480}}}`,
	} {
		var values map[string]any
		if err := json.Unmarshal([]byte(text), &values); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := Render(t.Context(), "release", "default", values); err != nil {
			t.Errorf("%s: %v", text, err)
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
			isRoute := alone != "gatherer" && found[1] == "release-groupcast-gatherer" // Envoy's route to a gatherer that may come
			if found[2] != "elsewhere" || !services[found[1]] && !isRoute {
				t.Errorf("%s alone: there is no Service at %s", alone, found[0])
			}
		}
	}
}

// Managers are told each group of each account, and may check tokens, even if only members have accounts.
func TestMemberAccounts(t *testing.T) {
	values := map[string]any{"manager": map[string]any{"memberAccounts": []any{
		map[string]any{"account": "training/publisher", "groups": []any{"models", "builds"}}, map[string]any{"account": "edge/all", "groups": []any{"*"}},
	}}}
	for _, part := range []string{"agent", "gatherer", "replicator"} {
		values[part] = map[string]any{"enabled": false}
	}
	settings, _ := configuration(t, values, "manager")["kubernetes"].(map[string]any)
	if got := fmt.Sprint(settings["memberAccounts"]); got != "[training/publisher=models training/publisher=builds edge/all=*]" {
		t.Errorf("managers are told %s", got)
	}
	objects, _, _, err := Render(t.Context(), "release", "default", values)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(objects, func(o Object) bool {
		return o.Kind.Kind == "ClusterRole" && strings.Contains(string(o.Text), "tokenreviews")
	}) {
		t.Error("the managers may not check tokens")
	}
}

// configuration returns the file that a part of the release "release" reads.
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

// Agents state the uplink that values give; if values give none, they look for their own.
func TestUplinkIsStated(t *testing.T) {
	for stated, want := range map[string]any{"": nil, "1250MB": "1250MB"} {
		config := configuration(t, map[string]any{"agent": map[string]any{"uplink": stated}}, "agent")
		data, _ := config["data"].(map[string]any)
		if data["uplink"] != want || data["listen"] != ":7410" {
			t.Errorf("with an uplink of %q, agents read %v", stated, data)
		}
	}
}

// Managers check an external etcd by the Secret's ca.crt and, if they are to, show the certificate in the same Secret.
// It is mounted where they look.
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

// Managers show the certificate in a Secret, from where it is mounted; if none is named, they show their own.
func TestMountedCertificateIsUsed(t *testing.T) {
	for secret, want := range map[string]string{"": "", "managers-tls": "/etc/groupcast-tls"} {
		values := map[string]any{"manager": map[string]any{"tls": map[string]any{"existingSecret": secret}}}
		own, _ := configuration(t, values, "manager")["identity"].(map[string]any)
		if dir, _ := own["tlsDir"].(string); dir != want {
			t.Errorf("with the Secret %q, managers read certificates in %q, want %q", secret, dir, want)
		}
		objects, _, _, err := Render(t.Context(), "release", "default", values)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			if labels, spec := pod(t, o); labels["app.kubernetes.io/component"] == "manager" && mountedFrom(spec, "/etc/groupcast-tls") != secret {
				t.Errorf("with the Secret %q, %s %s has that of %q there", secret, o.Kind.Kind, o.Name, mountedFrom(spec, "/etc/groupcast-tls"))
			}
		}
	}
}

// mountedFrom returns the Secret that is mounted at a directory of a pod's container.
func mountedFrom(spec *corev1.PodSpec, dir string) string {
	for _, m := range spec.Containers[0].VolumeMounts {
		for _, v := range spec.Volumes {
			if m.MountPath == dir && v.Name == m.Name && v.Secret != nil {
				return v.Secret.SecretName
			}
		}
	}
	return ""
}

// Templates use no value that does not exist.
func TestValuesThatAreAskedForExist(t *testing.T) {
	loaded, err := loader.Load(Chart)
	if err != nil {
		t.Fatal(err)
	}
	asked := regexp.MustCompile(`\.Values((?:\.[A-Za-z]+)+)`)
	for _, template := range loaded.Templates {
		for _, found := range asked.FindAllStringSubmatch(string(template.Data), -1) {
			at := loaded.Values
			for _, key := range strings.Split(found[1], ".")[1:] {
				below, there := at[key]
				if !there {
					t.Errorf("%s asks for %s, and there is no %s", template.Name, found[0], key)
				}
				next, isSection := below.(map[string]any)
				if !isSection || len(next) == 0 {
					break
				}
				at = next
			}
		}
	}
}

// A key of a map that is null, as with --set KEY=null, is removed: the schema accepts it, and nothing is rendered for it.
func TestNullTakesAKeyOut(t *testing.T) {
	taken, anywhere := map[string]any{"taken-out": nil}, map[string]any{"taken-out": nil, "kubernetes.io/os": nil}
	both := map[string]any{"taken-out": nil, "kept": "yes"}
	component := func() map[string]any {
		return map[string]any{"podLabels": both, "podAnnotations": taken, "nodeSelector": anywhere, "service": map[string]any{"annotations": taken}}
	}
	account := func() map[string]any {
		values := component()
		delete(values, "service")
		values["serviceAccount"] = map[string]any{"annotations": taken}
		return values
	}
	values := map[string]any{
		"commonLabels": taken, "manager": component(), "envoy": component(), "agent": account(), "replicator": account(), "gatherer": component(),
		"monitoring": map[string]any{
			"podMonitor": map[string]any{"enabled": true, "labels": taken}, "prometheusRule": map[string]any{"enabled": true, "labels": taken},
			"serviceMonitor": map[string]any{"enabled": true, "labels": taken},
		},
	}
	_, manifest, notes, err := Render(t.Context(), "release", "default", values)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(manifest+notes, "taken-out") {
		t.Error("a key that is null is rendered")
	}
	if got := strings.Count(manifest, "kept: \"yes\""); got != 5 {
		t.Errorf("the labels beside it are on %d pods, want 5", got)
	}
	if tests := 2; strings.Count(manifest, "nodeSelector") != tests || strings.Contains(notes, "with these labels alone") {
		t.Error("pods are bound to nodes without any label")
	}
}

// A cache in memory counts against the limit of the container, in whatever form that is written. The Go runtime keeps within the rest,
// which is enough for a process.
func TestCacheInMemoryLeavesRoom(t *testing.T) {
	for _, tt := range []struct {
		size  string
		limit any
		want  string
	}{
		{"1Gi", "2Gi", "1073741824"},
		{"448Mi", "0.5Gi", "67108864"},
		{"400Mi", "1G", "580569600"},
		{"400Mi", "512M", "92569600"},
		{"400Mi", "1e9", "580569600"},
		{"400Mi", "1000000000", "580569600"},
		{"400Mi", 1000000000.0, "580569600"},
		{"449Mi", "512Mi", ""},
		{"500Mi", "512Mi", ""},
		{"500Mi", "512M", ""},
		{"1Gi", "1G", ""},
		{"1Gi", "0.5Gi", ""},
	} {
		values := map[string]any{"agent": map[string]any{
			"cache":     map[string]any{"size": tt.size, "medium": "Memory"},
			"resources": map[string]any{"limits": map[string]any{"memory": tt.limit}},
		}}
		objects, _, _, err := Render(t.Context(), "release", "default", values)
		if (err != nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), "leaves the agents less than 64Mi") {
			t.Errorf("%s of %v: %v", tt.size, tt.limit, err)
		}
		if got := goMemory(t, objects); got != tt.want {
			t.Errorf("%s of %v: the Go runtime keeps within %q, want %q", tt.size, tt.limit, got, tt.want)
		}
	}
}

// A cache in memory has the size that it was given: its volume, which is no larger than the memory limit, keeps nothing
// free for others.
func TestCacheInMemoryIsWhole(t *testing.T) {
	for medium, want := range map[string]any{"": nil, "Memory": "16MiB"} {
		cache := map[string]any{"size": "448Mi", "medium": medium}
		config, _ := configuration(t, map[string]any{"agent": map[string]any{"cache": cache}}, "agent")["cache"].(map[string]any)
		if config["bytes"] != "448MiB" || config["reserve"] != want {
			t.Errorf("with the medium %q, agents read %v, want %v kept free", medium, config, want)
		}
	}
}

// goMemory returns the limit that the agents' Go runtime is told to keep, as a number of bytes.
func goMemory(t *testing.T, objects []Object) string {
	t.Helper()
	for _, o := range objects {
		if _, spec := pod(t, o); o.Kind.Kind == "DaemonSet" && strings.HasSuffix(o.Name, "-agent") {
			for _, variable := range spec.Containers[0].Env {
				if variable.Name == "GOMEMLIMIT" {
					return variable.Value
				}
			}
		}
	}
	return ""
}
