{{/* The gatherer's configuration file. */}}
{{- define "groupcast.gatherer.config" -}}
{{- $config := include "groupcast.dataPlaneConfig" (list . .Values.gatherer) | fromYaml -}}
{{- $_ := set $config "grpc" (dict "listen" (printf ":%d" (int .Values.gatherer.port))) -}}
{{- $_ := set $config "addresses" (list (printf "%s-gatherer.%s.svc:%d" (include "groupcast.fullname" .) (include "groupcast.namespace" .) (int .Values.gatherer.service.port))) -}}
{{- $_ := set $config "data" (dict "listen" (printf ":%d" (int .Values.gatherer.dataPort))) -}}
{{- $_ := set $config "store" (dict "dir" "/var/lib/groupcast/gathered" "reserve" (printf "%sB" .Values.gatherer.storage.reserve)) -}}
{{- $_ := set $config "policy" (dict "file" "/var/lib/groupcast/policy.yaml" "first" "/etc/groupcast/policy.yaml") -}}
{{- $_ := set $config "controller" .Values.gatherer.controller -}}
{{- $_ := set $config "stopWait" .Values.gatherer.stopWait -}}
{{- toYaml (mergeOverwrite $config (deepCopy (.Values.gatherer.config | default dict))) -}}
{{- end -}}
