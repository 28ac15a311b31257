{{/* A pod of `helm test` that runs the groupcast command as the release's operator: context, name, arguments. */}}
{{- define "groupcast.test" -}}
{{- $ := index . 0 -}}
apiVersion: v1
kind: Pod
metadata:
  {{- include "groupcast.metadata" (list $ "test" (index . 1)) | nindent 2 }}
  annotations:
    helm.sh/hook: test
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  restartPolicy: Never
  activeDeadlineSeconds: 600 # what is broken off, and is on a node, goes on no longer
  automountServiceAccountToken: false
  {{- include "groupcast.pullSecrets" $ | nindent 2 }}
  {{- include "groupcast.scheduling" $.Values.tests | trim | nindent 2 }}
  securityContext:
    {{- include "groupcast.podSecurity" $ | nindent 4 }}
  containers:
    - name: check
      image: {{ include "groupcast.image" (list $ $.Values.tests.image) }}
      imagePullPolicy: {{ $.Values.image.pullPolicy }}
      args: {{ prepend (index . 2) "--config=/etc/groupcast/config.yaml" | toJson }}
      resources:
        requests: {cpu: 50m, memory: 64Mi}
        limits: {memory: 512Mi}
      securityContext:
        {{- include "groupcast.containerSecurity" $ | nindent 8 }}
      volumeMounts:
        - {name: operator, mountPath: /etc/groupcast, readOnly: true}
        - {name: pod, mountPath: /etc/pod/uid, subPath: uid, readOnly: true} # the file itself, where others are links
        - {name: data, mountPath: /data}
  volumes:
    - name: operator
      secret:
        secretName: {{ include "groupcast.fullname" $ }}-operator
        defaultMode: 0440
        items:
          - {key: config.yaml, path: config.yaml}
          - {key: tls.crt, path: tls.crt}
          - {key: tls.key, path: tls.key}
          - {key: ca.crt, path: ca.crt}
    - name: pod
      downwardAPI:
        items:
          - path: uid
            fieldRef: {fieldPath: metadata.uid}
    - name: data
      emptyDir: {}
{{- end }}
