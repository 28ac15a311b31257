{{/* The agent's configuration file. */}}
{{- define "groupcast.agent.config" -}}
{{- $config := include "groupcast.dataPlaneConfig" (list . .Values.agent) | fromYaml -}}
{{- $_ := set $config "data" (dict "listen" (printf ":%d" (int .Values.agent.port))) -}}
{{- with .Values.agent.uplink -}}
{{- $_ := set $config.data "uplink" . -}}
{{- end -}}
{{- $_ := set $config "cache" (dict "dir" "/var/cache/groupcast/cache" "bytes" (printf "%sB" .Values.agent.cache.size)) -}}
{{- if eq .Values.agent.cache.medium "Memory" -}}
{{- $_ := set $config.cache "reserve" "16MiB" -}}{{- /* nobody else is there, and it is as large as the limit of memory at most */ -}}
{{- end -}}
{{- with .Values.agent.zone -}}
{{- $_ := set $config "zone" . -}}
{{- end -}}
{{- toYaml (mergeOverwrite $config (deepCopy (.Values.agent.config | default dict))) -}}
{{- end -}}

{{/*
The zone of a pod's node, as a variable: its topology label, which Kubernetes copies to pods. Where it does not, or the node has none, the variable is
empty, which is no zone. Call with .Values.agent.
*/}}
{{- define "groupcast.agent.zone" -}}
{{- if and (not .zone) (include "groupcast.leaves" (list .config "zone")) }}
- name: GROUPCAST_ZONE
  valueFrom:
    fieldRef: {fieldPath: "metadata.labels['topology.kubernetes.io/zone']"}
{{- end }}
{{- end -}}
