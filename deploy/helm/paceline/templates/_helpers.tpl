{{- define "paceline.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "paceline.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "paceline.name" . -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "paceline.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "paceline.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "paceline.selector" -}}
app.kubernetes.io/name: {{ include "paceline.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "paceline.labels" -}}
{{ include "paceline.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: paceline
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "paceline.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* host:port that shards and jobs are pointed at. */}}
{{- define "paceline.coordinator" -}}
{{ include "paceline.fullname" . }}-coordinator.{{ .Release.Namespace }}.svc:{{ .Values.coordinator.port }}
{{- end -}}

{{- define "paceline.usesEtcd" -}}
{{- if or .Values.etcd.enabled .Values.externalEtcd.endpoints -}}yes{{- end -}}
{{- end -}}

{{- define "paceline.etcdEndpoints" -}}
{{- if .Values.externalEtcd.endpoints -}}
{{- join "," .Values.externalEtcd.endpoints -}}
{{- else -}}
{{ include "paceline.fullname" . }}-etcd.{{ .Release.Namespace }}.svc:2379
{{- end -}}
{{- end -}}

{{/* What the schema cannot say: how values fit each other. */}}
{{- define "paceline.check" -}}
{{- $etcd := include "paceline.usesEtcd" . -}}
{{- $replicas := int .Values.shard.replicas -}}
{{- $copies := int .Values.shard.replication -}}
{{- if and (gt (int .Values.coordinator.replicas) 1) (not $etcd) -}}
{{- fail (printf "coordinator.replicas=%v: several coordinators share their facts in etcd, and none is configured. Set etcd.enabled=true, or externalEtcd.endpoints, or coordinator.replicas=1" .Values.coordinator.replicas) -}}
{{- end -}}
{{- if and .Values.etcd.enabled .Values.externalEtcd.endpoints -}}
{{- fail "etcd.enabled and externalEtcd.endpoints exclude each other: unset one of them" -}}
{{- end -}}
{{- if ge $copies $replicas -}}
{{- fail (printf "shard.replication=%d: %d copies of each segment and the first one need %d shards; shard.replicas is %d" $copies $copies (add1 $copies) $replicas) -}}
{{- end -}}
{{- if and .Values.shard.handOver.enabled (le (int .Values.shard.terminationGracePeriodSeconds) (int .Values.shard.handOver.timeoutSeconds)) -}}
{{- fail (printf "shard.terminationGracePeriodSeconds=%v: must be more than shard.handOver.timeoutSeconds=%v, or shards are killed while they hand over" .Values.shard.terminationGracePeriodSeconds .Values.shard.handOver.timeoutSeconds) -}}
{{- end -}}
{{- if and (eq .Values.shard.acks "durable") (not .Values.shard.persistence.enabled) -}}
{{- fail "shard.acks=durable: nothing is on a disk; set shard.persistence.enabled=true as well" -}}
{{- end -}}
{{- end -}}

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

{{/* Scheduling of a component: (dict "root" . "component" "shard" "values" .Values.shard) */}}
{{- define "paceline.scheduling" -}}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $anti := include "paceline.antiAffinity" (dict "root" .root "component" .component "mode" .values.antiAffinity) | fromYaml }}
{{- with merge (deepCopy .values.affinity) $anti }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "paceline.podMetadata" -}}
labels:
  {{- include "paceline.labels" . | nindent 2 }}
  {{- with .values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  kubectl.kubernetes.io/default-container: {{ .component }}
  {{- if .root.Values.metrics.annotations }}
  prometheus.io/scrape: "true"
  prometheus.io/port: {{ .root.Values.metrics.port | quote }}
  prometheus.io/path: /metrics
  {{- end }}
  {{- with .values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "paceline.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ .name | default . }}
  {{- end }}
{{- end }}
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
- {name: snapshots, persistentVolumeClaim: {claimName: {{ . }}}}
{{- end }}
{{- end -}}

{{/* Gives volumes to the user of the pod, where the storage does not honour fsGroup: dict "root" . "mounts" (a list). */}}
{{- define "paceline.volumeOwner" -}}
{{- $values := .root.Values -}}
{{- if and $values.volumePermissions.enabled .mounts }}
initContainers:
  - name: volume-owner
    image: {{ include "paceline.image" .root }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    command:
      - chown
      - {{ printf "%v:%v" $values.podSecurityContext.runAsUser $values.podSecurityContext.runAsGroup | quote }}
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
{{- end -}}
