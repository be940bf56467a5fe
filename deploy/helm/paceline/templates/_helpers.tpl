{{/* Names, labels, images. */}}

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

{{/* The label paceline_cluster of all metrics; also a value of a label selector, which has 63 characters at most. */}}
{{- define "paceline.metricsCluster" -}}
{{- $name := .Values.metrics.clusterName | default (printf "%s.%s" .Release.Namespace (include "paceline.fullname" .)) -}}
{{- /* Two that begin alike stay two. */ -}}
{{- if gt (len $name) 63 }}{{ $name = printf "%s-%s" (trunc 54 $name | trimSuffix "-" | trimSuffix ".") (sha256sum $name | trunc 8) }}{{ end -}}
{{- $name -}}
{{- end -}}

{{/* As few, and as many, shards as there may be. */}}
{{- define "paceline.shardsLeast" -}}
{{- ternary .Values.autoscaling.minReplicas .Values.shard.replicas .Values.autoscaling.enabled | int -}}
{{- end -}}
{{- define "paceline.shardsMost" -}}
{{- ternary .Values.autoscaling.maxReplicas .Values.shard.replicas .Values.autoscaling.enabled | int -}}
{{- end -}}

{{/* How many shards begin a cluster. Once one has served, the coordinator has its map and goes by that: its flag stays as it is, since
it would start anew with another one, in the very second in which shards that are not wanted any more ask it. */}}
{{- define "paceline.shardsFirst" -}}
{{- $full := include "paceline.fullname" . -}}
{{- $set := lookup "apps/v1" "StatefulSet" .Release.Namespace (print $full "-shard") | default dict -}}
{{- $old := lookup "apps/v1" "Deployment" .Release.Namespace (print $full "-coordinator") -}}
{{- $flag := "" -}}
{{- if and $old (gt (int ($set.status | default dict).readyReplicas) 0) }}{{ $flag = include "paceline.flagOf" (list $old "shards") }}{{ end -}}
{{- $flag | default (include "paceline.shardsLeast" .) -}}
{{- end -}}

{{/* The StatefulSet's number of shards; empty: an autoscaler's. Where manifests had a number before autoscaling was on, they
go on to have the one that there is. A StatefulSet that was taken away, and whose claims are left, comes back with as many shards as
these: without a number Kubernetes would make it 1. */}}
{{- define "paceline.replicas" -}}
{{- if not .Values.autoscaling.enabled -}}
{{- .Values.shard.replicas -}}
{{- else -}}
{{- $old := lookup "apps/v1" "StatefulSet" .Release.Namespace (print (include "paceline.fullname" .) "-shard") -}}
{{- if and $old (ne (get ($old.metadata.annotations | default dict) "paceline.example/replicas") "autoscaled") -}}
{{- $old.spec.replicas | int -}}
{{- else if not $old -}}
{{- $left := 0 -}}
{{- $claims := printf "^data-%s-shard-[0-9]+$" (include "paceline.fullname" .) -}}
{{- range (lookup "v1" "PersistentVolumeClaim" .Release.Namespace "").items -}}
{{- if regexMatch $claims .metadata.name }}{{ $left = max $left (regexFind "[0-9]+$" .metadata.name | int | add1) }}{{ end -}}
{{- end -}}
{{- if $left }}{{ min (max $left (int .Values.autoscaling.minReplicas)) (int .Values.autoscaling.maxReplicas) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether shards without a place drain before they stop. */}}
{{- define "paceline.drains" -}}
{{- if and .Values.shard.handOver.enabled .Values.shard.handOver.drain -}}yes{{- end -}}
{{- end -}}

{{/* What selects a component's pods; for the life of the release, so nothing that a value adds. */}}
{{- define "paceline.selector" -}}
app.kubernetes.io/name: {{ include "paceline.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Labels of an object: dict "root" . "component" "shard", and "more" (a map) if there are some. */}}
{{- define "paceline.labels" -}}
{{- $own := dict
  "app.kubernetes.io/version" .root.Chart.AppVersion
  "app.kubernetes.io/part-of" "paceline"
  "app.kubernetes.io/managed-by" .root.Release.Service
  "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") -}}
{{- $selector := include "paceline.selector" . | fromYaml -}}
{{- merge $selector (.more | default dict) (.root.Values.commonLabels | default dict) $own | toYaml -}}
{{- end -}}

{{/* An image's name: dict "root" . "image" .Values.image */}}
{{- define "paceline.imageName" -}}
{{- with .root.Values.global.imageRegistry }}{{ trimSuffix "/" . }}/{{ end -}}
{{ .image.repository }}{{ if .image.digest }}@{{ .image.digest }}{{ else }}:{{ .image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end -}}

{{- define "paceline.image" -}}
{{ include "paceline.imageName" (dict "root" . "image" .Values.image) }}
{{- end -}}

{{- define "paceline.pullSecrets" -}}
{{- $names := list -}}
{{- range concat (.Values.global.imagePullSecrets | default list) (.Values.imagePullSecrets | default list) -}}
{{- $names = append $names (ternary . (get (ternary dict . (kindIs "string" .)) "name") (kindIs "string" .)) -}}
{{- end -}}
{{- with $names | uniq }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* A claim's class: dict "root" . "claim" .Values.shard.persistence. "-" is none, which is not the cluster's default. */}}
{{- define "paceline.storageClass" -}}
{{- with .claim.storageClass | default .root.Values.global.storageClass }}
storageClassName: {{ ternary "" . (eq . "-") | quote }}
{{- end }}
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

{{/* Whether a cluster is asked, or says what it knows: `helm template` of its own knows groups, and no kinds. */}}
{{- define "paceline.knowsKinds" -}}
{{- if .Capabilities.APIVersions.Has "v1/Pod" -}}yes{{- end -}}
{{- end -}}
