{{/* What the schema cannot say. */}}
{{- define "groupcast.check" -}}
{{- include "groupcast.check.needed" . -}}
{{- include "groupcast.check.managers" . -}}
{{- include "groupcast.check.upgrade" . -}}
{{- include "groupcast.check.ports" . -}}
{{- include "groupcast.check.listens" . -}}
{{- include "groupcast.check.services" . -}}
{{- include "groupcast.check.envoy" . -}}
{{- include "groupcast.check.gateway" . -}}
{{- include "groupcast.check.lans" . -}}
{{- if and .Values.gatherer.enabled (le (include "groupcast.mebibytes" .Values.gatherer.storage.size | int) (include "groupcast.mebibytes" .Values.gatherer.storage.reserve | int)) -}}
{{- fail (printf "gatherer.storage.reserve %s leaves nothing of gatherer.storage.size %s for uploads" .Values.gatherer.storage.reserve .Values.gatherer.storage.size) -}}
{{- end -}}
{{- if ((.Values.agent.config).cache).bytes -}}
{{- fail "agent.config.cache.bytes is set, and the volume, and what memory it may use, go by agent.cache.size: set that" -}}
{{- end -}}
{{- $left := include "groupcast.besideCache" .Values.agent -}}
{{- if and .Values.agent.enabled (eq .Values.agent.cache.medium "Memory") $left (lt (int64 $left) (int64 67108864)) -}}
{{- fail (printf "agent.cache.size %s in memory leaves the agents less than 64Mi of their limit of memory, agent.resources.limits.memory %v, which it counts against" .Values.agent.cache.size .Values.agent.resources.limits.memory) -}}
{{- end -}}
{{- $alerts := list -}}
{{- range (.Files.Get "files/rules.yaml" | fromYaml).groups }}{{- range .rules }}{{- $alerts = append $alerts .alert -}}{{- end -}}{{- end -}}
{{- range .Values.monitoring.prometheusRule.disabled -}}
{{- if not (has . $alerts) -}}
{{- fail (printf "monitoring.prometheusRule.disabled has %s, which is no alert of this chart" .) -}}
{{- end -}}
{{- end -}}
{{- include "groupcast.check.pods" . -}}
{{- end -}}

{{/* --set KEY=null takes a value away: there is no default in its place. */}}
{{- define "groupcast.check.needed" -}}
{{- range $path := .Files.Get "files/needed.json" | fromJsonArray -}}
{{- $at := $.Values -}}
{{- range splitList "." $path -}}
{{- $at = index ($at | default dict) . -}}
{{- end -}}
{{- if kindIs "invalid" $at -}}
{{- fail (printf "%s is null, and has to be something: leave it out, and it has its default; or, where it was set before, set it to that" $path) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Each node looks for its own address among the networks: one address would be that of a single node, and the others would not start. */}}
{{- define "groupcast.check.lans" -}}
{{- range .Values.replicator.lans -}}
{{- if regexMatch "^([^=]*=)?([0-9]+([.][0-9]+){3}|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)$" . -}}
{{- fail (printf "replicator.lans has %s, which is one address: want the network with its prefix, as rack1=10.1.0.0/16 or, of one node alone, rack1=10.1.0.7/32" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "groupcast.check.managers" -}}
{{- if and (not .Values.store.external.endpoints) (not (has (int .Values.manager.replicas) (list 1 3))) -}}
{{- fail (printf "manager.replicas is %v: with the embedded store it can be 1 or 3; name an external etcd in store.external.endpoints for another number" .Values.manager.replicas) -}}
{{- end -}}
{{- if and .Values.store.external.clientCertificate (not .Values.store.external.tlsSecret) -}}
{{- fail "store.external.clientCertificate is true: name the Secret that has it in store.external.tlsSecret" -}}
{{- end -}}
{{- /* The scheme of the first endpoint says for all whether there is TLS. */ -}}
{{- $store := (include "groupcast.manager.config" . | fromYaml).store -}}
{{- range $endpoint := $store.endpoints -}}
{{- $first := first $store.endpoints -}}
{{- if ne (hasPrefix "https:" $endpoint) (hasPrefix "https:" $first) -}}
{{- fail (printf "store.external.endpoints has %s and %s: want one scheme" $first $endpoint) -}}
{{- end -}}
{{- if and $store.caFile (hasPrefix "http:" $endpoint) -}}
{{- fail (printf "%s is for TLS, and %s is spoken to without: name it with https://, or leave that out" (empty $.Values.store.external.tlsSecret | ternary "manager.config.store.caFile" "store.external.tlsSecret") $endpoint) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What an upgrade would spoil of the release that is there. Where charts are rendered without asking the cluster, nothing is. */}}
{{- define "groupcast.check.upgrade" -}}
{{- $namespace := include "groupcast.namespace" . -}}
{{- $name := printf "%s-manager" (include "groupcast.fullname" .) -}}
{{- $embedded := lookup "apps/v1" "StatefulSet" $namespace $name -}}
{{- if .Values.store.external.endpoints -}}
{{- if $embedded -}}
{{- fail (printf "store.external.endpoints: the managers of the release have their store in volumes (StatefulSet %s), and no upgrade moves it: groups would be gone, and who was revoked be let in again. Leave the endpoints out; or, if all may be forgotten, uninstall and install" $name) -}}
{{- end -}}
{{- else if lookup "apps/v1" "Deployment" $namespace $name -}}
{{- fail (printf "store.external.endpoints is empty: the managers of the release have their store in an external etcd (Deployment %s), and no upgrade moves it. Name its endpoints; or, if all may be forgotten, uninstall, delete the Secret %s-ca, and install" $name (include "groupcast.fullname" .)) -}}
{{- else -}}
{{- $managers := include "groupcast.managersThere" (list $namespace $name $embedded) | int -}}
{{- if gt $managers (int .Values.manager.replicas) -}}
{{- fail (printf "manager.replicas is %v, and the release is to have %v managers: once these have voted for their store, with fewer it has no majority. Leave it at %v; if they have never been ready, helm rollback; or uninstall, delete the claims data-%s-0 and so on, and install" .Values.manager.replicas $managers $managers $name) -}}
{{- end -}}
{{- end -}}
{{- include "groupcast.check.names" . -}}
{{- include "groupcast.check.revisions" . -}}
{{- range $component := list "manager" "gatherer" "envoy" -}}
{{- include "groupcast.check.service" (list $ $component) -}}
{{- end -}}
{{- include "groupcast.check.trustDomain" . -}}
{{- if not .Values.store.external.endpoints -}}
{{- include "groupcast.check.volumes" (list . "manager" "store" .Values.store) -}}
{{- end -}}
{{- if .Values.gatherer.enabled -}}
{{- include "groupcast.check.volumes" (list . "gatherer" "gatherer.storage" .Values.gatherer.storage) -}}
{{- $policy := .Values.gatherer.podManagementPolicy -}}
{{- $there := dig "spec" "podManagementPolicy" $policy (lookup "apps/v1" "StatefulSet" $namespace (printf "%s-gatherer" (include "groupcast.fullname" .))) -}}
{{- if and $policy (ne $policy $there) -}}
{{- fail (printf "gatherer.podManagementPolicy is %s, and the release has %s, which no upgrade changes. Leave it empty; or kubectl -n %s delete statefulset %s-gatherer --cascade=orphan, and upgrade" $policy $there $namespace (include "groupcast.fullname" .)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
How many managers have their store in volumes: where none is to run, as for a backup, or after an uninstallation, as many as there are claims. Call
with (list NAMESPACE NAME STATEFULSET).
*/}}
{{- define "groupcast.managersThere" -}}
{{- $managers := int (dig "spec" "replicas" 0 (index . 2)) -}}
{{- if not $managers -}}
{{- range $i := until 3 -}}
{{- if lookup "v1" "PersistentVolumeClaim" (index $ 0) (printf "data-%s-%d" (index $ 1) $i) -}}
{{- $managers = add1 $i -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $managers -}}
{{- end -}}

{{/* By which labels a workload knows its pods, Kubernetes lets nobody change. */}}
{{- define "groupcast.check.names" -}}
{{- $name := include "groupcast.name" . -}}
{{- range $component, $kind := dict "manager" (empty .Values.store.external.endpoints | ternary "StatefulSet" "Deployment") "agent" "DaemonSet" "gatherer" "StatefulSet" "replicator" "DaemonSet" "envoy" "Deployment" -}}
{{- $workload := printf "%s-%s" (include "groupcast.fullname" $) $component -}}
{{- $there := dig "spec" "selector" "matchLabels" "app.kubernetes.io/name" $name (lookup "apps/v1" $kind (include "groupcast.namespace" $) $workload) -}}
{{- if ne $name $there -}}
{{- fail (printf "nameOverride: the pods of the release are %s, those of these values would be %s, and no upgrade changes how %s %s knows them. Leave it as it was; or, if all may be forgotten, uninstall and install" $there $name $kind $workload) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Kubernetes before 1.33 changes of a StatefulSet that is there not even how many of its former templates are kept. */}}
{{- define "groupcast.check.revisions" -}}
{{- $limit := (include "groupcast.revisions" . | fromYaml).revisionHistoryLimit | int -}}
{{- if semverCompare "<1.33.0-0" .Capabilities.KubeVersion.Version -}}
{{- range $component := list "manager" "gatherer" -}}
{{- $name := printf "%s-%s" (include "groupcast.fullname" $) $component -}}
{{- $there := dig "spec" "revisionHistoryLimit" $limit (lookup "apps/v1" "StatefulSet" (include "groupcast.namespace" $) $name) | int -}}
{{- if ne $limit $there -}}
{{- fail (printf "revisionHistoryLimit is %d, and StatefulSet %s has %d, which Kubernetes %s does not change. Leave it at %d; or kubectl -n %s delete statefulset %s --cascade=orphan, and upgrade" $limit $name $there $.Capabilities.KubeVersion.Version $there (include "groupcast.namespace" $) $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Nor does Kubernetes change of a Service by which family its first address is, and of a LoadBalancer whose it is: (list $ "envoy"). */}}
{{- define "groupcast.check.service" -}}
{{- $values := (index (index . 0).Values (index . 1)).service -}}
{{- $namespace := include "groupcast.namespace" (index . 0) -}}
{{- $name := printf "%s-%s" (include "groupcast.fullname" (index . 0)) (index . 1) -}}
{{- with lookup "v1" "Service" $namespace $name -}}
{{- $family := first ($values.ipFamilies | default list) | default "" -}}
{{- $class := $values.loadBalancerClass | default "" -}}
{{- $isBalancer := and (eq $values.type "LoadBalancer") (eq (dig "spec" "type" "" .) "LoadBalancer") -}}
{{- $fixed := dict "ipFamilies" (list $family (first (dig "spec" "ipFamilies" list .) | default $family)) "loadBalancerClass" (list $class ($isBalancer | ternary (dig "spec" "loadBalancerClass" "" .) $class)) -}}
{{- range $key, $both := $fixed -}}
{{- if and (first $both) (ne (first $both) (last $both)) -}}
{{- fail (printf "%s.service.%s begins with %q, and Service %s has %q, which no upgrade changes. Leave it; or kubectl -n %s delete service %s, and upgrade: it may get another address" (index $ 1) $key (first $both) $name (last $both) $namespace $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whoever has an identity of another trust domain than the managers is let in by nobody: all parts have one, which config does not change for one of them. */}}
{{- define "groupcast.check.trustDomain" -}}
{{- range $path, $given := dict "manager.config.identity.trustDomain" ((.Values.manager.config).identity).trustDomain "agent.config.trustDomain" (.Values.agent.config).trustDomain "gatherer.config.trustDomain" (.Values.gatherer.config).trustDomain "replicator.config.trustDomain" (.Values.replicator.config).trustDomain -}}
{{- if and $given (ne $given $.Values.trustDomain) -}}
{{- fail (printf "%s is %s, and trustDomain is %s: nobody of one is let in by others. Set trustDomain, which is for all" $path $given $.Values.trustDomain) -}}
{{- end -}}
{{- end -}}
{{- $config := (dig "data" "manager.yaml" "" (lookup "v1" "ConfigMap" (include "groupcast.namespace" .) (printf "%s-manager" (include "groupcast.fullname" .)))) | fromYaml -}}
{{- $domain := (include "groupcast.manager.config" . | fromYaml).identity.trustDomain -}}
{{- $there := dig "identity" "trustDomain" $domain $config -}}
{{- if ne $domain $there -}}
{{- fail (printf "trustDomain is %s, and that of the release is %s: every certificate that is out would be refused, and agents of both have nothing to do with each other. Leave it at %s; or, if all may be forgotten, uninstall, delete the Secret %s-ca, and install" $domain $there $there (include "groupcast.fullname" .)) -}}
{{- end -}}
{{- end -}}

{{/*
Kubernetes changes no volumes of a StatefulSet that is there, and refuses it when other objects are changed already: (list $ "manager" "store" .Values.store). What
a new StatefulSet says holds for new claims alone.
*/}}
{{- define "groupcast.check.volumes" -}}
{{- $namespace := include "groupcast.namespace" (index . 0) -}}
{{- $name := printf "%s-%s" (include "groupcast.fullname" (index . 0)) (index . 1) -}}
{{- $key := index . 2 -}}
{{- $size := (index . 3).size -}}
{{- $class := (index . 3).storageClass -}}
{{- range dig "spec" "volumeClaimTemplates" list (lookup "apps/v1" "StatefulSet" $namespace $name) -}}
{{- $there := dig "spec" "resources" "requests" "storage" "0" . -}}
{{- if ne (include "groupcast.bytes" $there) (include "groupcast.bytes" $size) -}}
{{- fail (printf "%s.size is %s, and StatefulSet %s makes volumes of %s, which no upgrade changes. Enlarge each that there is, if its storage class can: kubectl -n %s patch pvc data-%s-0 -p '{\"spec\":{\"resources\":{\"requests\":{\"storage\":\"%s\"}}}}'; then kubectl -n %s delete statefulset %s --cascade=orphan, and upgrade. Or leave it at %s" $key $size $name $there $namespace $name $size $namespace $name $there) -}}
{{- end -}}
{{- $made := hasKey .spec "storageClassName" | ternary (.spec.storageClassName | default "-") "" -}}
{{- if ne $class $made -}}
{{- fail (printf "%s.storageClass is %q, and StatefulSet %s makes volumes of %q, which no upgrade changes, nor where those are that there are. Leave it at %q. For volumes that are made later: kubectl -n %s delete statefulset %s --cascade=orphan, and upgrade" $key $class $name $made $made $namespace $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Ports of the nodes are one each, over all that runs there. In the pod network each pod has an address of its own. */}}
{{- define "groupcast.check.ports" -}}
{{- $ports := dict -}}
{{- range $part, $keys := dict "agent" (list "port" "adminPort") "gatherer" (list "port" "dataPort" "adminPort") "replicator" (list "adminPort") -}}
{{- $values := index $.Values $part -}}
{{- if not $.Values.dataPlane.hostNetwork -}}
{{- $ports = dict -}}
{{- end -}}
{{- range $key := $values.enabled | ternary $keys list -}}
{{- $port := index $values $key | int | toString -}}
{{- if hasKey $ports $port -}}
{{- fail (printf "%s and %s.%s are the same: each needs one of its own" (get $ports $port) $part $key) -}}
{{- end -}}
{{- $_ := set $ports $port (printf "%s.%s" $part $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Probes, Services, policies and the nodes' ports are where the chart has a part listen: config may say at which addresses, and nothing else. */}}
{{- define "groupcast.check.listens" -}}
{{- $places := list
  (list "manager" "grpc" 7400 "leave it out: others use manager.service.port") (list "manager" "admin" 7401 "leave it out")
  (list "agent" "data" .Values.agent.port "set agent.port") (list "agent" "admin" .Values.agent.adminPort "set agent.adminPort")
  (list "gatherer" "grpc" .Values.gatherer.port "set gatherer.port") (list "gatherer" "data" .Values.gatherer.dataPort "set gatherer.dataPort") (list "gatherer" "admin" .Values.gatherer.adminPort "set gatherer.adminPort")
  (list "replicator" "admin" .Values.replicator.adminPort "set replicator.adminPort") -}}
{{- range $places -}}
{{- $listen := dig (index . 1) "listen" "" ((index $.Values (index . 0)).config | default dict) -}}
{{- $port := index . 2 | int | toString -}}
{{- $alone := regexMatch "^(127\\.|localhost|\\[?::1\\]?:)" $listen -}}
{{- if and $listen (or $alone (ne (regexFind "[0-9]+$" $listen) $port)) -}}
{{- fail (printf "%s.config.%s.listen is %s, where nobody finds it: probes, Services and network policies have port %s of the pods' addresses. For another port, %s" (index . 0) (index . 1) $listen $port (index . 3)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What a Service's type has no use for: Kubernetes refuses it, or passes it over without a word. */}}
{{- define "groupcast.check.services" -}}
{{- range $part := list "manager" "gatherer" "envoy" -}}
{{- $service := (index $.Values $part).service -}}
{{- range $key := list "loadBalancerClass" "loadBalancerSourceRanges" -}}
{{- if and (index $service $key) (ne $service.type "LoadBalancer") -}}
{{- fail (printf "%s.service.%s is set, and a Service of type %s has no use for it: set %s.service.type to LoadBalancer" $part $key $service.type $part) -}}
{{- end -}}
{{- end -}}
{{- range $key := eq $part "envoy" | ternary (list "externalTrafficPolicy") (list "externalTrafficPolicy" "nodePort") -}}
{{- if and (index $service $key) (eq $service.type "ClusterIP") -}}
{{- fail (printf "%s.service.%s is %v, and a Service of type ClusterIP has no use for it: set %s.service.type to NodePort or LoadBalancer" $part $key (index $service $key) $part) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "groupcast.check.envoy" -}}
{{- $service := dict -}}
{{- if .Values.envoy.enabled -}}
{{- range $key := list "port" "httpPort" "gatheringPort" -}}
{{- $port := index $.Values.envoy.service $key | int | toString -}}
{{- if hasKey $service $port -}}
{{- fail (printf "envoy.service.%s and envoy.service.%s are the same: each needs one of its own" (get $service $port) $key) -}}
{{- end -}}
{{- $_ := set $service $port $key -}}
{{- end -}}
{{- $nodes := dict -}}
{{- range $key := .Values.gatherer.enabled | ternary (list "nodePort" "httpNodePort" "gatheringNodePort") (list "nodePort" "httpNodePort") -}}
{{- $port := index $.Values.envoy.service $key | int | toString -}}
{{- if and (ne $port "0") (eq $.Values.envoy.service.type "ClusterIP") -}}
{{- fail (printf "envoy.service.%s is %s, and a Service of type ClusterIP has no ports of the nodes: set it to 0, or envoy.service.type to NodePort or LoadBalancer" $key $port) -}}
{{- end -}}
{{- if hasKey $nodes $port -}}
{{- fail (printf "envoy.service.%s and envoy.service.%s are the same: each needs one of its own" (get $nodes $port) $key) -}}
{{- end -}}
{{- if ne $port "0" -}}
{{- $_ := set $nodes $port $key -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Routes from Gateways lead to what there is, and a listener of TCP can have one alone. */}}
{{- define "groupcast.check.gateway" -}}
{{- $listeners := dict -}}
{{- range $door, $route := include "groupcast.routes" . | fromJson -}}
{{- $part := get (dict "http" "envoy" "gathering" "gatherer") $door -}}
{{- if and $part (not (index $.Values ($part | default "manager")).enabled) -}}
{{- fail (printf "gateway.%s.parentRefs is set, and %s.enabled is false: set that to true, or leave the former out" $door $part) -}}
{{- end -}}
{{- range $route.parentRefs -}}
{{- $listener := printf "%s of %s %s/%s" .sectionName (.kind | default "Gateway") (.namespace | default (include "groupcast.namespace" $)) .name -}}
{{- if hasKey $listeners $listener -}}
{{- fail (printf "gateway.%s.parentRefs and gateway.%s.parentRefs have the same listener, %s: each needs one of its own" (get $listeners $listener) $door $listener) -}}
{{- end -}}
{{- $_ := set $listeners $listener $door -}}
{{- end -}}
{{- end -}}
{{- $gateway := .Values.gateway | default dict -}}
{{- if and $gateway.enabled (not $listeners) -}}
{{- fail "gateway.enabled is true, and no listener is named: set gateway.grpc.parentRefs, gateway.http.parentRefs or gateway.gathering.parentRefs" -}}
{{- end -}}
{{- $http := $gateway.http | default dict -}}
{{- if and $http.hostnames (not $http.parentRefs) -}}
{{- fail "gateway.http.hostnames is set, and gateway.http.parentRefs is empty: name the listener that has these names" -}}
{{- end -}}
{{- end -}}
