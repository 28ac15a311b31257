{{/* The pod of a manager, for a StatefulSet (embedded store) or a Deployment (external etcd). */}}
{{- define "groupcast.manager.pod" -}}
{{- $external := not (empty .Values.store.external.endpoints) -}}
metadata:
  labels:
    {{- include "groupcast.podLabels" (list . "manager") | nindent 4 }}
    {{- with include "groupcast.given" .Values.manager.podLabels }}
    {{- . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/config: {{ include "groupcast.manager.config" . | sha256sum }}
    {{- with include "groupcast.given" .Values.manager.podAnnotations }}
    {{- . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "groupcast.fullname" . }}-manager
  automountServiceAccountToken: true
  terminationGracePeriodSeconds: {{ include "groupcast.seconds" (include "groupcast.manager.config" . | fromYaml).stopWait | int | add 50 }} # its store closes after the wait
  {{- include "groupcast.pullSecrets" . | nindent 2 }}
  {{- with .Values.manager.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    {{- include "groupcast.podSecurity" . | nindent 4 }}
  containers:
    - name: manager
      image: {{ include "groupcast.image" (list . .Values.manager.image) }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: {{ include "groupcast.args" (list "manager" .Values.manager.extraArgs) }}
      env:
        {{- include "groupcast.env" (list (include "groupcast.manager.env" .) .Values.manager.extraEnv) | nindent 8 }}
      ports:
        - {name: grpc, containerPort: 7400}
        - {name: admin, containerPort: 7401}
      startupProbe:
        httpGet: {path: /healthz, port: admin}
        periodSeconds: 2
        failureThreshold: 60
      livenessProbe:
        httpGet: {path: /healthz, port: admin}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: admin}
        periodSeconds: 3
        timeoutSeconds: 3
      resources:
        {{- toYaml .Values.manager.resources | nindent 8 }}
      securityContext:
        {{- include "groupcast.containerSecurity" . | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/groupcast, readOnly: true}
        - {name: data, mountPath: /var/lib/groupcast}
        - {name: tmp, mountPath: /tmp}
        {{- if .Values.manager.tls.existingSecret }}
        - {name: tls, mountPath: /etc/groupcast-tls, readOnly: true}
        {{- end }}
        {{- if and $external .Values.store.external.tlsSecret }}
        - {name: etcd-tls, mountPath: /etc/etcd-tls, readOnly: true}
        {{- end }}
        {{- with .Values.manager.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- with .Values.manager.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    - name: config
      configMap:
        name: {{ include "groupcast.fullname" . }}-manager
    - name: tmp
      emptyDir: {}
    {{- if $external }}
    - name: data
      emptyDir: {medium: Memory, sizeLimit: 16Mi}
    {{- end }}
    {{- with .Values.manager.tls.existingSecret }}
    - name: tls
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
    {{- if and $external .Values.store.external.tlsSecret }}
    - name: etcd-tls
      secret: {secretName: {{ .Values.store.external.tlsSecret }}, defaultMode: 0440}
    {{- end }}
    {{- with .Values.manager.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- include "groupcast.nodes" .Values.manager.nodeSelector | nindent 2 }}
  {{- with .Values.manager.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if not .Values.manager.affinity }}
  {{- include "groupcast.apart" (list . "manager") | nindent 2 }}
  {{- end }}
  {{- with .Values.manager.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.manager.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* What a manager is told by variables: its name, which no file knows. */}}
{{- define "groupcast.manager.env" -}}
{{- $external := not (empty .Values.store.external.endpoints) -}}
- name: POD_NAME
  valueFrom:
    fieldRef: {fieldPath: metadata.name}
- name: POD_IP
  valueFrom:
    fieldRef: {fieldPath: status.podIP}
{{- if include "groupcast.leaves" (list .Values.manager.config "name") }}
- name: GROUPCAST_NAME
  value: $(POD_NAME)
{{- end }}
{{- if include "groupcast.leaves" (list .Values.manager.config "address") }}
- name: GROUPCAST_ADDRESS
  {{- if $external }}
  value: "[$(POD_IP)]:7400" # in brackets, for it may be of IPv6
  {{- else }}
  value: $(POD_NAME).{{ include "groupcast.fullname" . }}-managers.{{ include "groupcast.namespace" . }}.svc:7400
  {{- end }}
{{- end }}
{{- if and (not $external) (include "groupcast.leaves" (list .Values.manager.config "store.cluster.self")) }}
- name: GROUPCAST_STORE_CLUSTER_SELF
  value: $(POD_NAME).{{ include "groupcast.fullname" . }}-managers.{{ include "groupcast.namespace" . }}.svc
{{- end }}
{{- include "groupcast.memoryLimit" .Values.manager }}
{{- end -}}

{{/* The manager's configuration file. */}}
{{- define "groupcast.manager.config" -}}
{{- $name := include "groupcast.fullname" . -}}
{{- $config := dict
  "admin" (dict "listen" ":7401")
  "grpc" (dict "listen" ":7400" "maxConnections" (int .Values.manager.maxConnections))
  "stopWait" .Values.manager.stopWait
  "log" (dict "level" (upper .Values.log.level) "format" .Values.log.format)
  "identity" (dict "trustDomain" .Values.trustDomain "caDir" "/var/lib/groupcast/ca")
  "store" (dict "dataDir" "/var/lib/groupcast/store")
  "kubernetes" (dict
    "caSecret" (printf "%s-ca" $name)
    "caConfigMap" (printf "%s-ca" $name)
    "audience" (include "groupcast.audience" .)) -}}
{{- if .Values.manager.tls.existingSecret -}}
{{- $_ := set $config.identity "tlsDir" "/etc/groupcast-tls" -}}
{{- end -}}
{{- if .Values.store.external.endpoints -}}
{{- $_ := set $config.store "endpoints" .Values.store.external.endpoints -}}
{{- if .Values.store.external.tlsSecret -}}
{{- $_ := set $config.store "caFile" "/etc/etcd-tls/ca.crt" -}}
{{- end -}}
{{- if .Values.store.external.clientCertificate -}}
{{- $_ := set $config.store "certFile" "/etc/etcd-tls/tls.crt" -}}
{{- $_ := set $config.store "keyFile" "/etc/etcd-tls/tls.key" -}}
{{- end -}}
{{- else -}}
{{- /* Also where there is one: it can become three without being started anew. */ -}}
{{- $domain := printf "%s-managers.%s.svc" $name (include "groupcast.namespace" .) -}}
{{- $_ := set $config.store "cluster" (dict "seed" $domain "first" (printf "%s-manager-0.%s" $name $domain)) -}}
{{- end -}}
{{- if .Values.manager.operatorSecret -}}
{{- $_ := set $config.kubernetes "operatorSecret" (printf "%s-operator" $name) -}}
{{- $_ := set $config.kubernetes "operatorEndpoint" (printf "%s:%d" (include "groupcast.managerHost" .) (int .Values.manager.service.port)) -}}
{{- end -}}
{{- if .Values.envoy.enabled -}}
{{- $host := printf "%s-envoy" $name -}}
{{- $namespace := include "groupcast.namespace" . -}}
{{- $routed := (include "groupcast.routes" . | fromJson | dig "http" "hostnames" list) | default list -}}
{{- $_ := set $config.kubernetes "gatewaySecret" $host -}}
{{- $_ := set $config.kubernetes "gatewayNames" (concat (list "localhost" $host (printf "%s.%s" $host $namespace) (printf "%s.%s.svc" $host $namespace)) (.Values.envoy.hostnames | default list) $routed | uniq) -}}
{{- end -}}
{{- $account := printf "%s/%s" (include "groupcast.namespace" .) $name -}}
{{- if .Values.agent.enabled -}}
{{- $_ := set $config.kubernetes "agentAccounts" (list (printf "%s-agent" $account)) -}}
{{- end -}}
{{- if .Values.gatherer.enabled -}}
{{- $_ := set $config.kubernetes "gathererAccounts" (list (printf "%s-gatherer" $account)) -}}
{{- end -}}
{{- if .Values.replicator.enabled -}}
{{- $_ := set $config.kubernetes "replicatorAccounts" (list (printf "%s-replicator" $account)) -}}
{{- end -}}
{{- $members := list -}}
{{- range $member := .Values.manager.memberAccounts -}}
{{- range $group := $member.groups -}}
{{- $members = append $members (printf "%s=%s" $member.account $group) -}}
{{- end -}}
{{- end -}}
{{- if $members -}}
{{- $_ := set $config.kubernetes "memberAccounts" $members -}}
{{- end -}}
{{- toYaml (mergeOverwrite $config (deepCopy (.Values.manager.config | default dict))) -}}
{{- end -}}
