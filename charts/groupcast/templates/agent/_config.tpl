{{/* The agent's configuration file. */}}
{{- define "groupcast.agent.config" -}}
{{- $config := dict
  "admin" (dict "listen" (printf ":%d" (int .Values.agent.adminPort)))
  "managers" (list (printf "%s:%d" (include "groupcast.managerHost" .) (int .Values.manager.service.port)))
  "trustDomain" .Values.trustDomain
  "credentialsDir" "/var/run/groupcast/credentials"
  "serviceAccountTokenFile" "/var/run/groupcast-identity/token"
  "authorityFile" "/var/run/groupcast-identity/ca.crt"
  "stopWait" .Values.agent.stopWait
  "log" (dict "level" (upper .Values.log.level) "format" .Values.log.format)
  "data" (dict "listen" (printf ":%d" (int .Values.agent.port)))
  "cache" (dict "dir" "/var/cache/groupcast/cache" "bytes" (printf "%sB" .Values.agent.cache.size)) -}}
{{- if .Values.agent.zone -}}
{{- $_ := set $config "zone" .Values.agent.zone -}}
{{- end -}}
{{- toYaml (mergeOverwrite $config (deepCopy .Values.agent.config)) -}}
{{- end -}}
