{{/* The replicator's configuration file. */}}
{{- define "groupcast.replicator.config" -}}
{{- $config := include "groupcast.dataPlaneConfig" (list . .Values.replicator) | fromYaml -}}
{{- $_ := set $config "sources" (.Values.replicator.sources | default list) -}}
{{- $_ := set $config "targets" (list "/var/lib/groupcast/replicas") -}}
{{- $_ := set $config "reserve" (printf "%sB" (.Values.replicator.reserve | default "256Mi")) -}}
{{- $_ := set $config "state" "/var/lib/groupcast/state" -}}
{{- with .Values.replicator.lans -}}
{{- $_ := set $config "lans" . -}}
{{- end -}}
{{- toYaml (mergeOverwrite $config (deepCopy (.Values.replicator.config | default dict))) -}}
{{- end -}}

{{/* The single LAN of the nodes' addresses, as variables, unless values or config name LANs. */}}
{{- define "groupcast.replicator.lan" -}}
{{- if and (not .Values.replicator.lans) (include "groupcast.leaves" (list .Values.replicator.config "lans")) }}
- name: POD_IP # on the nodes' network, that of the node
  valueFrom:
    fieldRef: {fieldPath: status.podIP}
- name: GROUPCAST_LANS
  value: lan=$(POD_IP)
{{- end }}
{{- end -}}
