{{/* The chart's own name. */}}
{{- define "groupcast.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The beginning of all names. Endings have up to 22 letters, and the whole is a DNS label. */}}
{{- define "groupcast.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "groupcast.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "groupcast.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
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

{{- define "groupcast.labels" -}}
{{- $root := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "groupcast.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: groupcast
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
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
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "groupcast.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* The Go runtime keeps within the container's memory. */}}
{{- define "groupcast.memoryLimit" -}}
{{- if ((.resources).limits).memory }}
- name: GOMEMLIMIT
  valueFrom:
    resourceFieldRef: {resource: limits.memory}
{{- end }}
{{- end -}}

{{/* Where clients find the managers: their Service. */}}
{{- define "groupcast.managerHost" -}}
{{ include "groupcast.fullname" . }}-manager.{{ include "groupcast.namespace" . }}.svc
{{- end -}}

{{/* Whom ServiceAccount tokens are for: the managers of this release, and of no other. */}}
{{- define "groupcast.audience" -}}
groupcast/{{ include "groupcast.namespace" . }}/{{ include "groupcast.fullname" . }}
{{- end -}}

{{/* 4Gi in MiB. */}}
{{- define "groupcast.mebibytes" -}}
{{- if hasSuffix "Gi" . -}}
{{- trimSuffix "Gi" . | int | mul 1024 -}}
{{- else -}}
{{- trimSuffix "Mi" . | int -}}
{{- end -}}
{{- end -}}

{{/* What the schema cannot say. */}}
{{- define "groupcast.check" -}}
{{- if and (not .Values.store.external.endpoints) (not (has (int .Values.manager.replicas) (list 1 3))) -}}
{{- fail (printf "manager.replicas is %v: with the embedded store it can be 1 or 3; name an external etcd in store.external.endpoints for another number" .Values.manager.replicas) -}}
{{- end -}}
{{- if eq (int .Values.agent.port) (int .Values.agent.adminPort) -}}
{{- fail "agent.port and agent.adminPort are the same: each needs one of its own" -}}
{{- end -}}
{{- end -}}
