{{/* How many bytes Envoy takes for what callers have it keep: two thirds of its limit of memory, or what it likes without one. */}}
{{- define "groupcast.envoy.heap" -}}
{{- with ((.Values.envoy.resources).limits).memory -}}
{{- div (mul (include "groupcast.bytes" (toString .) | int64) 2) 3 -}}
{{- else -}}
{{- 1125899906842624 -}}
{{- end -}}
{{- end -}}

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
  | replace "1000000004" (include "groupcast.envoy.heap" .)
  | replace "1000001" (int .Values.envoy.rateLimit.burst | toString)
  | replace "1000002" (int .Values.envoy.rateLimit.requestsPerSecond | toString)
  | trim -}}
{{- end -}}
