{{/* The replicator's configuration file. */}}
{{- define "groupcast.replicator.config" -}}
{{- $config := include "groupcast.dataPlaneConfig" (list . .Values.replicator) | fromYaml -}}
{{- $_ := set $config "sources" (.Values.replicator.sources | default list) -}}
{{- $_ := set $config "targets" (list "/var/lib/groupcast/replicas") -}}
{{- $_ := set $config "state" "/var/lib/groupcast/state" -}}
{{- with .Values.replicator.lans -}}
{{- $_ := set $config "lans" . -}}
{{- end -}}
{{- toYaml (mergeOverwrite $config (deepCopy (.Values.replicator.config | default dict))) -}}
{{- end -}}
