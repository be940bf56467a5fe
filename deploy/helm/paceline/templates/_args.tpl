{{/* The flags of each program, as lists; what values state, before extraArgs. */}}

{{- define "paceline.coordinatorArgs" -}}
- --listen=0.0.0.0:{{ .Values.coordinator.port }}
- --metrics-listen=0.0.0.0:{{ .Values.metrics.port }}
- --metrics-cluster={{ include "paceline.metricsCluster" . }}
{{- if include "paceline.usesEtcd" . }}
# Each cluster on one etcd has a prefix of its own.
- --store=etcd://{{ include "paceline.etcdEndpoints" . }}/{{ .Release.Namespace }}-{{ include "paceline.fullname" . }}
# Where those that stand by send clients on to.
{{- if eq .Values.coordinator.service.type "NodePort" }}
- --advertise=$(HOST_IP):{{ .Values.coordinator.service.nodePort }}
{{- else }}
- --advertise=$(POD_IP):{{ .Values.coordinator.port }}
{{- end }}
{{- else }}
- --data-dir=/var/lib/paceline/coordinator
{{- end }}
{{- with include "paceline.snapshotDir" . }}
- --snapshot-dir={{ . }}
{{- end }}
# That so many have joined begins a cluster; how many there are later, shards and the StatefulSet say.
- --shards={{ include "paceline.shardsFirst" . }}
{{- if include "paceline.drains" . }}
- --statefulset={{ .Release.Namespace }}/{{ include "paceline.fullname" . }}-shard
{{- end }}
- --replicas={{ .Values.shard.replication }}
- --ring-bits={{ .Values.coordinator.ringBits }}
- --session-timeout={{ .Values.coordinator.sessionTimeout }}
- --keep-alive={{ .Values.coordinator.keepAlive }}
- --log-format={{ .Values.log.format }}
- --log-level={{ .Values.log.level }}
{{- end -}}

{{- define "paceline.shardArgs" -}}
- --coordinator=$(PACELINE_COORDINATOR)
- --name=$(POD_NAME)
# Others reach it by its address: a new pod has a new one, and nobody waits for DNS to follow.
- --listen=0.0.0.0:{{ .Values.shard.port }}
{{- if not .Values.shard.external.enabled }}
- --advertise=$(POD_IP):{{ .Values.shard.port }}
{{- end }}
# What shards and coordinators say to each other: nobody else is to reach it (networkpolicy.yaml).
- --peer-listen=0.0.0.0:{{ .Values.shard.peerPort }}
- --peer-advertise=$(POD_IP):{{ .Values.shard.peerPort }}
{{- if .Values.shard.zone.label }}
- [--zone, $(PACELINE_ZONE)]
{{- end }}
- --memory-budget={{ .Values.shard.memoryBudget }}
- --staging-budget={{ .Values.shard.stagingBudget }}
- --threads={{ .Values.shard.threads }}
- --metrics-listen=0.0.0.0:{{ .Values.metrics.port }}
- --metrics-cluster={{ include "paceline.metricsCluster" . }}
- --log-format={{ .Values.log.format }}
- --log-level={{ .Values.log.level }}
{{- if .Values.shard.persistence.enabled }}
- --data-dir=/var/lib/paceline/shard
{{- end }}
{{- with include "paceline.snapshotDir" . }}
- --snapshot-dir={{ . }}
{{- end }}
{{- with .Values.shard.acks }}
- --acks={{ . }}
{{- end }}
{{- end -}}

{{/* A shard's command. For clients outside it advertises what its number makes of shard.external. */}}
{{- define "paceline.shardCommand" -}}
{{- $external := .Values.shard.external -}}
{{- if $external.enabled -}}
{{- $host := $external.host | default "$HOST_IP" | replace "{ordinal}" "${POD_NAME##*-}" -}}
{{- $port := ternary (printf "$((%d + ${POD_NAME##*-}))" (int $external.nodePortBase)) (toString .Values.shard.port) (eq $external.type "NodePort") -}}
- sh
- -c
- exec paceline-shard --advertise="{{ $host }}:{{ $port }}" "$@"
- paceline-shard
{{- else -}}
- paceline-shard
{{- end -}}
{{- end -}}

{{- define "paceline.etcdArgs" -}}
{{- $name := printf "%s-etcd" (include "paceline.fullname" .) -}}
{{- $peers := printf "%s-peers.%s.svc" $name .Release.Namespace -}}
{{- $members := list -}}
{{- range $i := until (int .Values.etcd.replicas) -}}
{{- $members = append $members (printf "%s-%d=http://%s-%d.%s:2380" $name $i $name $i $peers) -}}
{{- end -}}
- --name=$(POD_NAME)
- --data-dir=/var/lib/paceline/etcd
- --listen-client-urls=http://0.0.0.0:2379
- --advertise-client-urls=http://$(POD_NAME).{{ $peers }}:2379
- --listen-peer-urls=http://0.0.0.0:2380
- --initial-advertise-peer-urls=http://$(POD_NAME).{{ $peers }}:2380
- --initial-cluster={{ join "," $members }}
- --initial-cluster-token={{ $name }}
- --initial-cluster-state=new
- --auto-compaction-mode=periodic
- --auto-compaction-retention=1h
- --quota-backend-bytes=1073741824
{{- end -}}
