{{/* Envoy's configuration: drawn by Go (e2e/envoy/bootstrap) with these stand-ins, which a test replaces in the same way. */}}
{{- define "groupcast.envoy.config" -}}
{{- .Files.Get "files/envoy.json"
  | replace "managers.invalid" (printf "%s-managers.%s.svc" (include "groupcast.fullname" .) (include "groupcast.namespace" .))
  | replace "trust-domain.invalid" .Values.trustDomain
  | replace "1000001" (int .Values.envoy.rateLimit.burst | toString)
  | replace "1000002" (int .Values.envoy.rateLimit.requestsPerSecond | toString)
  | trim -}}
{{- end -}}
