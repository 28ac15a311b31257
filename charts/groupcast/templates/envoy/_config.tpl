{{/* Envoy's configuration: drawn by Go (charts/envoy) with these stand-ins, which a test replaces in the same way. */}}
{{- define "groupcast.envoy.config" -}}
{{- $listen := .Values.envoy.listen | default "::" -}}
{{- $everywhere := "\"::\",\n      \"ipv4_compat\": true" -}}
{{- .Files.Get "files/envoy.json"
  | replace $everywhere (eq $listen "::" | ternary $everywhere (quote $listen))
  | replace "managers.invalid" (printf "%s-managers.%s.svc" (include "groupcast.fullname" .) (include "groupcast.namespace" .))
  | replace "gatherer.invalid" (printf "%s-gatherer.%s.svc" (include "groupcast.fullname" .) (include "groupcast.namespace" .))
  | replace "1000003" (int .Values.gatherer.service.port | toString)
  | replace "trust-domain.invalid" .Values.trustDomain
  | replace "1000001" (int .Values.envoy.rateLimit.burst | toString)
  | replace "1000002" (int .Values.envoy.rateLimit.requestsPerSecond | toString)
  | trim -}}
{{- end -}}
