{{/*
What values add to a pod must not take the place of what the chart has there: Kubernetes refuses some of that, after it has changed other objects, and the rest breaks
something silently. Each pod is looked at as it would be.
*/}}
{{- define "groupcast.check.pods" -}}
{{- include "groupcast.check.labels" (list "commonLabels" .Values.commonLabels (include "groupcast.selector" (list . "") | fromYaml)) -}}
{{- range $part, $file := dict "manager" "manager/manager.yaml" "agent" "agent/agent.yaml" "gatherer" "gatherer/gatherer.yaml" "replicator" "replicator/replicator.yaml" "envoy" "envoy/envoy.yaml" -}}
{{- $values := index $.Values $part -}}
{{- if or (eq $part "manager") $values.enabled -}}
{{- include "groupcast.check.labels" (list (printf "%s.podLabels" $part) $values.podLabels (include "groupcast.selector" (list $ $part) | fromYaml)) -}}
{{- if hasKey (include "groupcast.given" $values.podAnnotations | fromYaml) "checksum/config" -}}
{{- fail (printf "%s.podAnnotations has checksum/config, by which the chart starts pods anew when their configuration changes: leave it out" $part) -}}
{{- end -}}
{{- range splitList "\n---\n" (include (printf "%s/%s" $.Template.BasePath $file) $) -}}
{{- if contains "\n  template:\n" . -}}
{{- $workload := fromYaml . -}}
{{- include "groupcast.check.containers" (list $part $workload.spec.template.spec) -}}
{{- include "groupcast.check.mounts" (list $part $workload.spec) -}}
{{- if ne $part "envoy" -}}
{{- include "groupcast.check.settings" (list $part $values (include (printf "groupcast.%s.config" $part) $ | fromYaml) (first $workload.spec.template.spec.containers).env) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range .Values.envoy.enabled | ternary .Values.envoy.extraArgs list -}}
{{- if regexMatch "^(-c|--config-path|--concurrency|-l|--log-level|--drain-time-s|--mode|--version|--hot-restart-version|-h|--help)([ =]|$)" . -}}{{- /* Envoy takes a flag and its value as one argument, too */ -}}
{{- fail (printf "envoy.extraArgs has %s, which the chart gives to Envoy itself, or with which Envoy ends: leave it out" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The labels by which a workload knows its pods may be given as they are: (list "agent.podLabels" .Values.agent.podLabels SELECTOR). */}}
{{- define "groupcast.check.labels" -}}
{{- $given := include "groupcast.given" (index . 1) | fromYaml -}}
{{- range $label, $value := index . 2 -}}
{{- if and (hasKey $given $label) (ne (get $given $label | toString) ($value | toString)) -}}
{{- fail (printf "%s has %s, by which the chart finds its pods: leave it out" (index $ 0) $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Names and ports of containers: (list "agent" POD). A Service, a monitor and a policy find a port by its name, in whichever container it is. */}}
{{- define "groupcast.check.containers" -}}
{{- $part := index . 0 -}}
{{- $names := list -}}
{{- $ports := list -}}
{{- range $container := (index . 1).containers -}}
{{- if has $container.name $names -}}
{{- fail (printf "%s.extraContainers has %s, and there is a container of that name in the pod: give it another name" $part $container.name) -}}
{{- end -}}
{{- $names = append $names $container.name -}}
{{- range $container.ports -}}
{{- range $port := compact (list .name (printf "%v/%s" .containerPort (.protocol | default "TCP"))) -}}
{{- if has $port $ports -}}
{{- fail (printf "%s.extraContainers: %s has the port %s, which another container of the pod has: give it another one" $part $container.name $port) -}}
{{- end -}}
{{- $ports = append $ports $port -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Names of volumes, and where they are mounted: (list "agent" SPEC), of the workload. */}}
{{- define "groupcast.check.mounts" -}}
{{- $part := index . 0 -}}
{{- $pod := (index . 1).template.spec -}}
{{- $volumes := list -}}
{{- range (index . 1).volumeClaimTemplates -}}
{{- $volumes = append $volumes .metadata.name -}}
{{- end -}}
{{- range $pod.volumes -}}
{{- if has .name $volumes -}}
{{- fail (printf "%s.extraVolumes has %s, and there is a volume of that name in the pod: give it another name" $part .name) -}}
{{- end -}}
{{- $volumes = append $volumes .name -}}
{{- end -}}
{{- range $i, $container := $pod.containers -}}
{{- $from := eq $i 0 | ternary (printf "%s.extraVolumeMounts" $part) (printf "%s.extraContainers: %s" $part $container.name) -}}
{{- $paths := list -}}
{{- range $container.volumeMounts -}}
{{- if not (has .name $volumes) -}}
{{- fail (printf "%s mounts %s, and there is no volume of that name in the pod: add it to %s.extraVolumes" $from .name $part) -}}
{{- end -}}
{{- $path := clean .mountPath -}}
{{- if has $path $paths -}}
{{- fail (printf "%s has %s, where something is mounted already: mount it elsewhere" $from $path) -}}
{{- end -}}
{{- $paths = append $paths $path -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
A flag wins over a variable, and a variable over the file: (list "agent" .Values.agent CONFIG ENV). What the chart sets is for values and config, where it is checked. Variables can
tell what only the pod knows; they may be of any setting but of those that the chart goes by elsewhere: probes and policies, the time to stop, who is let in. Where the data of a pod
is reached is known to the pod alone where nodes differ.
*/}}
{{- define "groupcast.check.settings" -}}
{{- $part := index . 0 -}}
{{- $set := dict "config" "" "print-config" "" "print-schema" "" "version" "" "help" "" "stop-wait" "stopWait" "data-addresses" "data.addresses" -}}
{{- range index . 3 -}}
{{- if hasPrefix "GROUPCAST_" .name -}}
{{- $_ := set $set (trimPrefix "GROUPCAST_" .name | lower | replace "_" "-") (eq .name "GROUPCAST_ZONE" | ternary "zone" "") -}}
{{- end -}}
{{- end -}}
{{- range splitList " " (include "groupcast.paths" (list (index . 2) "") | trim) -}}
{{- $_ := set $set (regexReplaceAll "([A-Z])" . "-$1" | lower | replace "." "-") . -}}
{{- end -}}
{{- range (index . 1).extraArgs -}}
{{- $flag := regexFind "[a-z][a-z0-9-]*" . -}}
{{- if hasKey $set $flag -}}
{{- $path := get $set $flag -}}
{{- fail (printf "%s.extraArgs has --%s, which the chart itself gives to the program, or with which it ends: %s" $part $flag (empty $path | ternary "leave it out" (eq $path "cache.bytes" | ternary "set agent.cache.size" (printf "set %s in %s.config, or the value that is for it" $path $part)))) -}}
{{- end -}}
{{- end -}}
{{- range (index . 1).extraEnv -}}
{{- if regexMatch "^GROUPCAST_(.*_)?(LISTEN|STOP_WAIT|TRUST_DOMAIN)$" .name -}}
{{- fail (printf "%s.extraEnv has %s, which the rest of the chart would know nothing of: set it in %s.config, or by the value that is for it" $part .name $part) -}}
{{- end -}}
{{- if and (eq $part "agent") (eq .name "GROUPCAST_CACHE_BYTES") -}}
{{- fail "agent.extraEnv has GROUPCAST_CACHE_BYTES, and the volume, and what memory it may use, go by agent.cache.size: set that" -}}
{{- end -}}
{{- if and (eq .name "GROUPCAST_DATA_ADDRESSES") ((index $ 2).data).hosts -}}
{{- fail (printf "%s.extraEnv has GROUPCAST_DATA_ADDRESSES, and %s.config.data.hosts is set: leave one of them out" $part $part) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The paths of all settings in a configuration, as store.dataDir, with spaces between: (list CONFIG ""). */}}
{{- define "groupcast.paths" -}}
{{- $above := index . 1 -}}
{{- range $key, $value := index . 0 -}}
{{- $path := printf "%s%s" $above $key -}}
{{- if kindIs "map" $value -}}
{{- include "groupcast.paths" (list $value (printf "%s." $path)) -}}
{{- else -}}
{{- printf " %s" $path -}}
{{- end -}}
{{- end -}}
{{- end -}}
