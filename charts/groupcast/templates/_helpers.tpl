{{/* The chart's own name. */}}
{{- define "groupcast.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/*
The beginning of all names. Endings have up to 22 letters, and the whole is a DNS label. What is cut ends with a hash of the whole, so that
two long names that differ at their end stay two.
*/}}
{{- define "groupcast.fullname" -}}
{{- $name := .Values.fullnameOverride -}}
{{- if not $name -}}
{{- $name = include "groupcast.name" . -}}
{{- $name = contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- end -}}
{{- if gt (len $name) 40 -}}
{{- $name = printf "%s-%s" ($name | trunc 31 | trimSuffix "-") ($name | sha256sum | trunc 8) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{- define "groupcast.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{/* What finds the pods of a component: never a version. Call with (list $ "manager"). */}}
{{- define "groupcast.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "groupcast.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* The labels of every object: those of pods, and the chart's version. */}}
{{- define "groupcast.labels" -}}
{{- $root := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "groupcast.podLabels" . }}
{{- end -}}

{{/* The labels of pods. They do not have the chart's version: a chart that has only that anew replaces none. */}}
{{- define "groupcast.podLabels" -}}
{{- $root := index . 0 -}}
{{ include "groupcast.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: groupcast
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
{{- with include "groupcast.given" $root.Values.commonLabels }}
{{ . }}
{{- end }}
{{- end -}}

{{/* The metadata of an object: (list $ "manager" "name-ending"). */}}
{{- define "groupcast.metadata" -}}
{{- $root := index . 0 -}}
name: {{ include "groupcast.fullname" $root }}-{{ index . 2 }}
namespace: {{ include "groupcast.namespace" $root }}
labels:
  {{- include "groupcast.labels" (list $root (index . 1)) | nindent 2 }}
{{- end -}}

{{/* One of our own images: (list $ .Values.agent.image). A digest wins over the tag. */}}
{{- define "groupcast.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- $registry := $root.Values.global.imageRegistry | default $image.registry | default $root.Values.image.registry -}}
{{- $tag := $image.tag | default $root.Values.image.tag | default $root.Chart.AppVersion -}}
{{- if $image.digest -}}
{{- printf "%s/%s@%s" $registry $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s/%s:%s" $registry $image.repository $tag -}}
{{- end -}}
{{- end -}}

{{- define "groupcast.pullSecrets" -}}
{{- with .Values.global.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The security contexts of every pod and container: enough for the restricted standard, whatever the network. */}}
{{- define "groupcast.podSecurity" -}}
{{- $default := dict "runAsNonRoot" true "runAsUser" 65532 "runAsGroup" 65532 "fsGroup" 65532 "fsGroupChangePolicy" "OnRootMismatch" "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- include "groupcast.context" (list $default .Values.podSecurityContext "runAsNonRoot") -}}
{{- end -}}

{{- define "groupcast.containerSecurity" -}}
{{- $default := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) -}}
{{- include "groupcast.context" (list $default .Values.securityContext "allowPrivilegeEscalation") -}}
{{- end -}}

{{/*
A security context of values, which have the chart's own but for what null has taken out: (list DEFAULT VALUES KEY). Those that are reused of an earlier chart
have what was set alone, and so not the key, which nobody has a reason to take out.
*/}}
{{- define "groupcast.context" -}}
{{- $values := index . 1 | default dict -}}
{{- include "groupcast.given" (hasKey $values (index . 2) | ternary $values (merge dict $values (index . 0))) -}}
{{- end -}}

{{/* How many earlier versions of a workload Kubernetes keeps. */}}
{{- define "groupcast.revisions" -}}
revisionHistoryLimit: {{ kindIs "invalid" .Values.revisionHistoryLimit | ternary 10 .Values.revisionHistoryLimit }}
{{- end -}}

{{/* What kind of Service it is, and how it is reached. Call with the service of a part. */}}
{{- define "groupcast.service" -}}
type: {{ .type }}
{{- range $key := list "ipFamilyPolicy" "ipFamilies" "loadBalancerClass" "loadBalancerSourceRanges" "externalTrafficPolicy" }}
{{- with index $ $key }}
{{ $key }}: {{ toJson . }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
The variables of a container: the chart's own, as YAML, and those of values, which replace those of the same name: (list OWN .Values.agent.extraEnv). A name that is there
twice is refused by server-side apply. Kubernetes puts a variable into the values of those behind it alone, so that one that others refer to stands before them: they wait for it,
and what is left of a circle is last.
*/}}
{{- define "groupcast.env" -}}
{{- $given := dict -}}
{{- range index . 1 -}}
{{- $_ := set $given .name . -}}
{{- end -}}
{{- $all := list -}}
{{- $own := list -}}
{{- range index . 0 | fromYamlArray -}}
{{- $all = append $all (get $given .name | default .) -}}
{{- $own = append $own .name -}}
{{- end -}}
{{- range index . 1 -}}
{{- if not (has .name $own) -}}
{{- $all = append $all . -}}
{{- end -}}
{{- end -}}
{{- $ordered := list -}}
{{- range $all -}}{{- /* as many rounds as bring the last one to its place */ -}}
{{- $waiting := list -}}
{{- range $i, $variable := $all -}}
{{- $ahead := false -}}
{{- range concat $waiting (slice $all (add1 $i | int)) -}}
{{- if contains (printf "$(%s)" .name) ($variable.value | default "" | toString) -}}
{{- $ahead = true -}}
{{- end -}}
{{- end -}}
{{- if $ahead -}}
{{- $waiting = append $waiting $variable -}}
{{- else -}}
{{- $ordered = append $ordered $variable -}}
{{- end -}}
{{- end -}}
{{- $all = $waiting -}}
{{- end -}}
{{- toYaml (concat $ordered $all) -}}
{{- end -}}

{{/* The arguments of a service, as JSON: (list "agent" .Values.agent.extraArgs). */}}
{{- define "groupcast.args" -}}
{{- concat (list (printf "--config=/etc/groupcast/%s.yaml" (index . 0))) (index . 1 | default list) | toJson -}}
{{- end -}}

{{/* The Go runtime keeps within the container's memory. */}}
{{- define "groupcast.memoryLimit" -}}
{{- if ((.resources).limits).memory }}
- name: GOMEMLIMIT
  valueFrom:
    resourceFieldRef: {resource: limits.memory}
{{- end }}
{{- end -}}

{{/* What is routed from Gateways, as JSON, by what it is for: nothing unless that is enabled. */}}
{{- define "groupcast.routes" -}}
{{- $gateway := .Values.gateway | default dict -}}
{{- $routes := dict -}}
{{- range $door := list "grpc" "http" "gathering" -}}
{{- $route := index $gateway $door | default dict -}}
{{- if and $gateway.enabled $route.parentRefs -}}
{{- $_ := set $routes $door $route -}}
{{- end -}}
{{- end -}}
{{- toJson $routes -}}
{{- end -}}

{{/* What an agent's process may use of its container's memory, in bytes: what a cache in memory leaves it. Without a limit nothing. */}}
{{- define "groupcast.besideCache" -}}
{{- with ((.resources).limits).memory -}}
{{- sub (include "groupcast.bytes" (toString .) | int64) (include "groupcast.bytes" $.cache.size | int64) -}}
{{- end -}}
{{- end -}}

{{- define "groupcast.agent.memoryLimit" -}}
{{- $left := include "groupcast.besideCache" . -}}
{{- if and $left (eq .cache.medium "Memory") }}
- name: GOMEMLIMIT
  value: {{ $left | quote }}
{{- else }}
{{- include "groupcast.memoryLimit" . }}
{{- end }}
{{- end -}}

{{/* The ports of a rule of a network policy, as JSON: (list .Values.… "TCP" …). */}}
{{- define "groupcast.policyPorts" -}}
{{- $all := list -}}
{{- range $protocol := rest . -}}
{{- range first $ -}}
{{- $all = append $all (dict "port" (int .) "protocol" $protocol) -}}
{{- end -}}
{{- end -}}
{{ toJson $all }}
{{- end -}}

{{- define "groupcast.dnsPorts" -}}
{{ include "groupcast.policyPorts" (list (.Values.networkPolicy.dnsPorts | default (list 53)) "UDP" "TCP") }}
{{- end -}}

{{/* Where clients find the managers: their Service. */}}
{{- define "groupcast.managerHost" -}}
{{ include "groupcast.fullname" . }}-manager.{{ include "groupcast.namespace" . }}.svc
{{- end -}}

{{/* True where somebody gets in by a token of a ServiceAccount, which the managers have the API server check. */}}
{{- define "groupcast.reviews" -}}
{{- if or .Values.agent.enabled .Values.gatherer.enabled .Values.replicator.enabled .Values.manager.memberAccounts -}}
true
{{- end -}}
{{- end -}}

{{/* Whom ServiceAccount tokens are for: the managers of this release, and of no other. */}}
{{- define "groupcast.audience" -}}
groupcast/{{ include "groupcast.namespace" . }}/{{ include "groupcast.fullname" . }}
{{- end -}}

{{/* 4Gi in MiB. */}}
{{- define "groupcast.mebibytes" -}}
{{- if hasSuffix "Ti" . -}}
{{- trimSuffix "Ti" . | int | mul 1048576 -}}
{{- else if hasSuffix "Gi" . -}}
{{- trimSuffix "Gi" . | int | mul 1024 -}}
{{- else -}}
{{- trimSuffix "Mi" . | int -}}
{{- end -}}
{{- end -}}

{{/* A quantity of Kubernetes in bytes: 1G, 512Mi, 0.5Gi or 1e9. */}}
{{- define "groupcast.bytes" -}}
{{- $scales := dict "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 -}}
{{- mulf (regexFind "^[0-9.]+([eE][+]?[0-9]+)?" . | float64) (get $scales (regexFind "[a-zA-Z]+$" .) | default 1) | int64 -}}
{{- end -}}

{{/* 1m30s in seconds, rounded up. */}}
{{- define "groupcast.seconds" -}}
{{- $seconds := 0.0 -}}
{{- range regexFindAll "[0-9.]+[a-zµ]+" . -1 -}}
{{- $scale := get (dict "h" 3600 "m" 60 "s" 1 "ms" 0.001) (regexFind "[a-zµ]+$" .) | default 0 -}}
{{- $seconds = addf $seconds (mulf (regexFind "^[0-9.]+" . | float64) $scale) -}}
{{- end -}}
{{- $seconds | ceil | int -}}
{{- end -}}

{{/* What a map of values holds, but for the keys that --set KEY=null has taken out of it. */}}
{{- define "groupcast.given" -}}
{{- $given := dict -}}
{{- range $key, $value := . -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $_ := set $given $key $value -}}
{{- end -}}
{{- end -}}
{{- with $given -}}
{{ toYaml . }}
{{- end -}}
{{- end -}}

{{/* The annotations of an object: what values say. Call with a map. */}}
{{- define "groupcast.annotations" -}}
{{- with include "groupcast.given" . }}
annotations:
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}

{{/*
Has the pods of a component keep apart: call with the root and its name. It is no topologySpreadConstraint: of several, those that
the scheduler may ignore, it ignores all on nodes that lack any one's label, and where nodes have no zone all would come to be on one.
*/}}
{{- define "groupcast.apart" -}}
{{- $selector := include "groupcast.selector" . -}}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      {{- range $key, $weight := dict "kubernetes.io/hostname" 100 "topology.kubernetes.io/zone" 50 }}
      - weight: {{ $weight }}
        podAffinityTerm:
          topologyKey: {{ $key }}
          labelSelector:
            matchLabels:
              {{- $selector | nindent 14 }}
      {{- end }}
{{- end -}}

{{/* How an endpoint is scraped: (list .Values.monitoring.podMonitor (list …)), with what the chart itself does to labels, on which rules and dashboards rely. */}}
{{- define "groupcast.scraped" -}}
{{- $values := index . 0 -}}
interval: {{ $values.interval }}
{{- with concat (index . 1) ($values.relabelings | default list) }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Nodes that pods may run on: those of Linux, for which the images are, with the labels of a nodeSelector, which may take that out. */}}
{{- define "groupcast.nodes" -}}
{{- $labels := . | default dict | deepCopy -}}
{{- if not (hasKey $labels "kubernetes.io/os") -}}
{{- $_ := set $labels "kubernetes.io/os" "linux" -}}
{{- end -}}
{{- with include "groupcast.given" $labels }}
nodeSelector:
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Where pods may run: call with the values of a component. */}}
{{- define "groupcast.scheduling" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- include "groupcast.nodes" .nodeSelector }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The probes of a pod of the data plane. */}}
{{- define "groupcast.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: admin}
  periodSeconds: 2
  failureThreshold: 90
livenessProbe:
  httpGet: {path: /healthz, port: admin}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: admin}
  periodSeconds: 3
  timeoutSeconds: 3
{{- end -}}

{{/* The ports of a pod of the data plane, which are the node's own on its network: (list $ (list "data" 7410 "TCP") …). */}}
{{- define "groupcast.ports" -}}
{{- $host := (index . 0).Values.dataPlane.hostNetwork -}}
{{- range rest . }}
- name: {{ index . 0 }}
  containerPort: {{ index . 1 }}
  {{- if $host }}
  hostPort: {{ index . 1 }}
  {{- end }}
  protocol: {{ index . 2 }}
{{- end }}
{{- end -}}

{{/*
What config leaves to a variable that the chart sets: (list .Values.agent.config "data.hosts" …) is true while it has none of the keys. A variable
wins over the file.
*/}}
{{- define "groupcast.leaves" -}}
{{- $leaves := true -}}
{{- range $key := rest . -}}
{{- $at := first $ -}}
{{- range splitList "." $key -}}
{{- $at = index ($at | default dict) . -}}
{{- end -}}
{{- if not (kindIs "invalid" $at) -}}
{{- $leaves = false -}}
{{- end -}}
{{- end -}}
{{- if $leaves -}}
true
{{- end -}}
{{- end -}}

{{/* Where others reach the data of such a pod, as a variable: its own address, unless config or another variable says where. Call with (list $ .Values.agent). */}}
{{- define "groupcast.dataHosts" -}}
{{- $leaves := include "groupcast.leaves" (list (index . 1).config "data.hosts" "data.addresses") -}}
{{- range (index . 1).extraEnv -}}
{{- if eq .name "GROUPCAST_DATA_ADDRESSES" -}}
{{- $leaves = "" -}}
{{- end -}}
{{- end -}}
{{- if $leaves }}
- name: GROUPCAST_DATA_HOSTS
  valueFrom:
    fieldRef: {fieldPath: {{ (index . 0).Values.dataPlane.hostNetwork | ternary "status.hostIP" "status.podIP" }}}
{{- end }}
{{- end -}}

{{/* The name of a pod's node, as a variable. Call with the values of a component. */}}
{{- define "groupcast.node" -}}
{{- if include "groupcast.leaves" (list .config "node") }}
- name: GROUPCAST_NODE
  valueFrom:
    fieldRef: {fieldPath: spec.nodeName}
{{- end }}
{{- end -}}

{{/* What every pod of the data plane has in its spec: (list $ "agent" .Values.agent). */}}
{{- define "groupcast.dataPlanePod" -}}
{{- $root := index . 0 -}}
serviceAccountName: {{ include "groupcast.fullname" $root }}-{{ index . 1 }}
automountServiceAccountToken: false
{{- if $root.Values.dataPlane.hostNetwork }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- $config := include (printf "groupcast.%s.config" (index . 1)) $root | fromYaml }}
terminationGracePeriodSeconds: {{ include "groupcast.seconds" ($config.stopWait | default "0s") | int | add 35 }} # what follows the wait, if there is one, takes some, too
{{- include "groupcast.pullSecrets" $root }}
{{- include "groupcast.scheduling" (index . 2) }}
securityContext:
  {{- include "groupcast.podSecurity" $root | nindent 2 }}
{{- end -}}

{{/* The labels and annotations of such a pod: (list $ "agent" .Values.agent). A change of its configuration starts it anew. */}}
{{- define "groupcast.dataPlaneMetadata" -}}
{{- $root := index . 0 -}}
{{- $values := index . 2 -}}
labels:
  {{- include "groupcast.podLabels" (list $root (index . 1)) | nindent 2 }}
  {{- with include "groupcast.given" $values.podLabels }}
  {{- . | nindent 2 }}
  {{- end }}
annotations:
  {{- /* A gatherer reads its first policy when it starts, too. */}}
  checksum/config: {{ list (include (printf "groupcast.%s.config" (index . 1)) $root) $values.policy | toJson | sha256sum }}
  {{- with include "groupcast.given" $values.podAnnotations }}
  {{- . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* The ServiceAccount and the configuration of a component of the data plane: (list $ "agent" .Values.agent). */}}
{{- define "groupcast.dataPlaneObjects" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "groupcast.metadata" (list $root $component $component) | nindent 2 }}
  {{- include "groupcast.annotations" (index . 2).serviceAccount.annotations | nindent 2 }}
automountServiceAccountToken: false
---
apiVersion: v1
kind: ConfigMap
metadata:
  {{- include "groupcast.metadata" (list $root $component $component) | nindent 2 }}
data:
  {{ $component }}.yaml: |
    {{- include (printf "groupcast.%s.config" $component) $root | nindent 4 }}
{{- end -}}

{{/* The volumes that such a pod shows the managers who it is by: the pod starts when they have written their CA's certificate. */}}
{{- define "groupcast.dataPlaneVolumes" -}}
{{- $root := index . 0 -}}
{{- $name := include "groupcast.fullname" $root -}}
- name: config
  configMap:
    name: {{ $name }}-{{ index . 1 }}
- name: identity
  projected:
    sources:
      - serviceAccountToken:
          audience: {{ include "groupcast.audience" $root }}
          expirationSeconds: 3600
          path: token
      - configMap:
          name: {{ $name }}-ca
          items: [{key: ca.crt, path: ca.crt}]
- name: credentials
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
{{- end -}}

{{- define "groupcast.dataPlaneMounts" -}}
- {name: config, mountPath: /etc/groupcast, readOnly: true}
- {name: identity, mountPath: /var/run/groupcast-identity, readOnly: true}
- {name: credentials, mountPath: /var/run/groupcast}
{{- end -}}

{{/* What all configurations of the data plane begin with: (list $ .Values.agent), as YAML. */}}
{{- define "groupcast.dataPlaneConfig" -}}
{{- $root := index . 0 -}}
{{- $values := index . 1 -}}
{{- toYaml (dict
  "admin" (dict "listen" (printf ":%d" (int $values.adminPort)))
  "managers" (list (printf "%s:%d" (include "groupcast.managerHost" $root) (int $root.Values.manager.service.port)))
  "trustDomain" $root.Values.trustDomain
  "credentialsDir" "/var/run/groupcast/credentials"
  "serviceAccountTokenFile" "/var/run/groupcast-identity/token"
  "authorityFile" "/var/run/groupcast-identity/ca.crt"
  "log" (dict "level" (upper $root.Values.log.level) "format" $root.Values.log.format)) -}}
{{- end -}}
