{{/* Parts of pods. */}}

{{/* (dict "root" . "component" "shard" "mode" "soft") */}}
{{- define "paceline.antiAffinity" -}}
{{- if eq .mode "hard" }}
podAntiAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    - topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels:
          {{- include "paceline.selector" . | nindent 10 }}
{{- else if eq .mode "soft" }}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "paceline.selector" . | nindent 12 }}
{{- end }}
{{- end -}}

{{/* Where a pod may run: (dict "root" . "component" "shard" "values" .Values.shard), and "zones" true for a spread over them. */}}
{{- define "paceline.scheduling" -}}
{{- with .values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $mode := .values.antiAffinity | default "none" -}}
{{- $anti := include "paceline.antiAffinity" (dict "root" .root "component" .component "mode" $mode) | fromYaml }}
{{- with merge (deepCopy (.values.affinity | default dict)) $anti }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $own := dict "labelSelector" (dict "matchLabels" (include "paceline.selector" . | fromYaml)) -}}
{{- $spreads := list -}}
{{- if .zones -}}
{{- $spreads = append $spreads (merge (dict "maxSkew" 1 "topologyKey" "topology.kubernetes.io/zone" "whenUnsatisfiable" "ScheduleAnyway") $own) -}}
{{- end -}}
{{- range .values.topologySpreadConstraints -}}
{{- $spreads = append $spreads (ternary . (merge (deepCopy .) $own) (hasKey . "labelSelector")) -}}
{{- end -}}
{{- with $spreads }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* dict "root" . "component" "shard" "values" .Values.shard, and "metrics" true if the pod has a page of them. */}}
{{- define "paceline.podMetadata" -}}
{{- $annotations := dict "kubectl.kubernetes.io/default-container" .component -}}
{{- if and .metrics .root.Values.metrics.annotations -}}
{{- $annotations = merge $annotations (dict "prometheus.io/scrape" "true" "prometheus.io/port" (.root.Values.metrics.port | toString) "prometheus.io/path" "/metrics") -}}
{{- end -}}
labels:
  {{- include "paceline.labels" (dict "root" .root "component" .component "more" .values.podLabels) | nindent 2 }}
annotations:
  {{- merge (deepCopy (.values.podAnnotations | default dict)) $annotations | toYaml | nindent 2 }}
{{- end -}}

{{/* What is the same in the spec of every pod. */}}
{{- define "paceline.podSpec" -}}
serviceAccountName: {{ include "paceline.serviceAccount" .root | quote }}
automountServiceAccountToken: {{ .token | default false }}
enableServiceLinks: false
{{- include "paceline.pullSecrets" .root }}
{{- include "paceline.scheduling" . }}
{{- with .root.Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The end of every container: dict "root" . "values" .Values.shard */}}
{{- define "paceline.containerEnd" -}}
# An error that ends a process shows in `kubectl describe`.
terminationMessagePolicy: FallbackToLogsOnError
{{- with .values.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A program's flags: dict "own" (a list; a flag with its value in two words is a list) "more" (extraArgs, which replace). */}}
{{- define "paceline.args" -}}
{{- $more := .more | default list -}}
{{- $replaced := dict -}}
{{- range $more -}}
{{- $_ := set $replaced (regexFind "^--[a-z-]+" .) true -}}
{{- end -}}
{{- range .own -}}
{{- $words := ternary . (list .) (kindIs "slice" .) -}}
{{- if not (hasKey $replaced (first $words | regexFind "^--[a-z-]+")) }}
{{ toYaml $words }}
{{- end -}}
{{- end -}}
{{- with $more }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The three probes of a server: dict "values" .Values.shard "probe" (map) "ready" (map, if another one). */}}
{{- define "paceline.probes" -}}
startupProbe:
  {{- merge (deepCopy .values.startupProbe) .probe | toYaml | nindent 2 }}
livenessProbe:
  {{- merge (deepCopy .values.livenessProbe) .probe | toYaml | nindent 2 }}
readinessProbe:
  {{- merge (deepCopy .values.readinessProbe) (.ready | default .probe) | toYaml | nindent 2 }}
{{- end -}}

{{/* Where shards and coordinators see the claim of job snapshots; nothing if there is none. */}}
{{- define "paceline.snapshotDir" -}}
{{- if .Values.snapshots.existingClaim }}/var/lib/paceline-snapshots{{ end }}
{{- end -}}

{{/* The mounts of a server: dict "root" . "data" (whether it has a volume of its own). */}}
{{- define "paceline.volumeMounts" -}}
{{- if .data }}
- {name: data, mountPath: /var/lib/paceline}
{{- end }}
{{- with include "paceline.snapshotDir" .root }}
- {name: snapshots, mountPath: {{ . }}}
{{- end }}
{{- end -}}

{{- define "paceline.snapshotVolume" -}}
{{- with .Values.snapshots.existingClaim -}}
- {name: snapshots, persistentVolumeClaim: {claimName: {{ . | quote }}}}
{{- end }}
{{- end -}}

{{/* Init containers: one that gives volumes to the user of the pod, where the storage does not honour fsGroup, and the user's:
dict "root" . "mounts" (a list) "values" .Values.shard */}}
{{- define "paceline.initContainers" -}}
{{- $values := .root.Values -}}
{{- $user := $values.podSecurityContext | default dict -}}
{{- $owner := and $values.volumePermissions.enabled .mounts -}}
{{- if or $owner .values.extraInitContainers }}
initContainers:
  {{- if $owner }}
  - name: volume-owner
    image: {{ include "paceline.image" .root }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    command:
      - chown
      - {{ printf "%d:%d" (int64 $user.runAsUser) (int64 $user.runAsGroup) | quote }}
      {{- range .mounts }}
      - {{ .mountPath }}
      {{- end }}
    resources:
      requests: {cpu: 10m, memory: 16Mi}
      limits: {memory: 32Mi}
    securityContext:
      runAsUser: 0
      runAsNonRoot: false
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL], add: [CHOWN]}
    volumeMounts:
      {{- toYaml .mounts | nindent 6 }}
  {{- end }}
  {{- with .values.extraInitContainers }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "paceline.updateStrategy" -}}
type: {{ .type }}
{{- if and .partition (eq .type "RollingUpdate") }}
rollingUpdate: {partition: {{ .partition }}}
{{- end }}
{{- end -}}

{{/* When a StatefulSet's claims go: dict "root" . "scaled" "Retain". By default Kubernetes keeps them. */}}
{{- define "paceline.retention" -}}
{{- $deleted := .root.Values.shard.persistence.retention.whenDeleted -}}
{{- if or (ne $deleted "Retain") (ne .scaled "Retain") }}
persistentVolumeClaimRetentionPolicy: {whenDeleted: {{ $deleted }}, whenScaled: {{ .scaled }}}
{{- end }}
{{- end -}}
