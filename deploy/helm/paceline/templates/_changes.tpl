{{/* What cannot be changed by an upgrade: compared with what is installed, where Helm can look it up. `helm template` and dry runs
without a server look nothing up; then the API server, or the coordinator's log, says it. */}}

{{/* list OBJECT NAME: the value of the flag --NAME of the object's first container, or nothing. */}}
{{- define "paceline.flagOf" -}}
{{- $prefix := printf "--%s=" (index . 1) -}}
{{- range (index (index . 0).spec.template.spec.containers 0).args -}}
{{- if hasPrefix $prefix . }}{{ trimPrefix $prefix . }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "paceline.checkChanges" -}}
{{- $full := include "paceline.fullname" . -}}
{{- include "paceline.checkRenamed" . -}}
{{- with lookup "apps/v1" "Deployment" .Release.Namespace (print $full "-coordinator") -}}
{{- include "paceline.checkCoordinatorChanges" (dict "root" $ "old" .) -}}
{{- end -}}
{{- with lookup "v1" "PersistentVolumeClaim" .Release.Namespace (print $full "-coordinator") -}}
{{- include "paceline.checkCoordinatorClaim" (dict "root" $ "old" .) -}}
{{- end -}}
{{- with lookup "apps/v1" "StatefulSet" .Release.Namespace (print $full "-shard") -}}
{{- include "paceline.checkShardChanges" (dict "root" $ "old" .) -}}
{{- end -}}
{{- with lookup "apps/v1" "StatefulSet" .Release.Namespace (print $full "-etcd") -}}
{{- include "paceline.checkEtcdChanges" (dict "root" $ "old" .) -}}
{{- end -}}
{{- end -}}

{{- define "paceline.checkRenamed" -}}
{{- $name := print (include "paceline.fullname" .) "-shard" -}}
{{- range (lookup "apps/v1" "StatefulSet" .Release.Namespace "").items -}}
{{- $labels := .metadata.labels | default dict -}}
{{- $ours := and (eq (get $labels "app.kubernetes.io/instance") $.Release.Name) (eq (get $labels "app.kubernetes.io/component") "shard") (eq (get $labels "app.kubernetes.io/part-of") "paceline") -}}
{{- if and $ours (ne .metadata.name $name) -}}
{{- fail (printf "the shards of this release are named %s and would become %s, without the rows in their claims: fullnameOverride and nameOverride stay as they were when it was installed. Set them back" .metadata.name $name) -}}
{{- end -}}
{{- if and $ours (ne (get $labels "app.kubernetes.io/name") (include "paceline.name" $)) -}}
{{- fail (printf "nameOverride: the pods of this release are selected by the name %s, which Kubernetes does not change; set it back" (get $labels "app.kubernetes.io/name")) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "paceline.checkRingBits" -}}
{{- if and .old (ne .old (toString .new)) -}}
{{- fail (printf "coordinator.ringBits=%v: this cluster was created with %s, and the number of its segments never changes. Set it to %s; for another number install a new release and restore jobs from snapshots" .new .old .old) -}}
{{- end -}}
{{- end -}}

{{- define "paceline.checkCoordinatorChanges" -}}
{{- $v := .root.Values -}}
{{- include "paceline.checkRingBits" (dict "old" (include "paceline.flagOf" (list .old "ring-bits")) "new" (int $v.coordinator.ringBits)) -}}
{{- $store := include "paceline.flagOf" (list .old "store") -}}
{{- $bundled := contains (print (include "paceline.fullname" .root) "-etcd.") $store -}}
{{- $was := ternary "the coordinator's own store" (ternary "the bundled etcd" "an external etcd" $bundled) (eq $store "") -}}
{{- $is := ternary "the coordinator's own store" (ternary "the bundled etcd" "an external etcd" $v.etcd.enabled) (eq (include "paceline.usesEtcd" .root) "") -}}
{{- if ne $was $is -}}
{{- fail (printf "the facts of this cluster are in %s, and etcd.enabled and externalEtcd.endpoints now mean %s, which has none: no shard would be accepted there. Set them back; for another store install a new release and restore jobs from snapshots" $was $is) -}}
{{- end -}}
{{- if and (eq $store "") (not $v.coordinator.persistence.enabled) -}}
{{- range .old.spec.template.spec.volumes -}}
{{- if .persistentVolumeClaim -}}
{{- if eq .name "data" -}}
{{- fail (printf "coordinator.persistence.enabled=false: the facts of this cluster are in the claim %s, and the coordinator would begin a new cluster. Set it back to true" .persistentVolumeClaim.claimName) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "paceline.checkCoordinatorClaim" -}}
{{- $v := .root.Values -}}
{{- $claim := $v.coordinator.persistence -}}
{{- if and $claim.enabled (not $claim.existingClaim) (not (include "paceline.usesEtcd" .root)) -}}
{{- include "paceline.checkRingBits" (dict "old" (get (.old.metadata.annotations | default dict) "paceline.example/ring-bits") "new" (int $v.coordinator.ringBits)) -}}
{{- $size := .old.spec.resources.requests.storage -}}
{{- if lt (include "paceline.number" $claim.size | float64) (include "paceline.number" $size | float64) -}}
{{- fail (printf "coordinator.persistence.size=%s: the claim %s has %s, and claims do not shrink. Set it to %s or more" $claim.size .old.metadata.name $size $size) -}}
{{- end -}}
{{- $class := $claim.storageClass | default $v.global.storageClass -}}
{{- if and $class (ne $class (.old.spec.storageClassName | default "-")) -}}
{{- fail (printf "coordinator.persistence.storageClass=%s: the claim %s is of class %q, which Kubernetes does not change. Set it back" $class .old.metadata.name (.old.spec.storageClassName | default "-")) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* dict "root" . "old" (a StatefulSet) "path" "shard" "claim" .Values.shard.persistence: Kubernetes keeps claim templates as they are. */}}
{{- define "paceline.checkClaimTemplate" -}}
{{- $name := .old.metadata.name -}}
{{- $pods := printf "%s-0 to %s-%d" $name $name (sub (int .old.spec.replicas) 1) -}}
{{- $old := dict -}}
{{- range .old.spec.volumeClaimTemplates }}{{ if eq .metadata.name "data" }}{{ $old = . }}{{ end }}{{ end -}}
{{- if ne (ternary true false (hasKey $old "spec")) .claim.enabled -}}
{{- fail (printf "%s.persistence.enabled=%v: the StatefulSet %s was made otherwise, and Kubernetes does not change that. Set it back; or take snapshots of the jobs, uninstall the release, delete its claims, and install it anew" .path .claim.enabled $name) -}}
{{- end -}}
{{- if $old.spec -}}
{{- $size := $old.spec.resources.requests.storage -}}
{{- $was := include "paceline.number" $size | float64 -}}
{{- $wanted := include "paceline.number" .claim.size | float64 -}}
{{- if gt $wanted $was -}}
{{- fail (printf "%s.persistence.size=%s: the StatefulSet %s makes claims of %s, which Kubernetes does not change in place. Enlarge the claims of %s with `kubectl patch pvc data-%s-N -p '{\"spec\":{\"resources\":{\"requests\":{\"storage\":\"%s\"}}}}'`, take the StatefulSet away with `kubectl delete statefulset %s --cascade=orphan`, and upgrade again" .path .claim.size $name $size $pods $name .claim.size $name) -}}
{{- end -}}
{{- if lt $wanted $was -}}
{{- fail (printf "%s.persistence.size=%s: the claims of %s have %s, and claims do not shrink. Set it to %s" .path .claim.size $pods $size $size) -}}
{{- end -}}
{{- $class := .claim.storageClass | default .root.Values.global.storageClass -}}
{{- if ne (ternary "" $class (eq ($class | default "-") "-")) ($old.spec.storageClassName | default "") -}}
{{- fail (printf "%s.persistence.storageClass=%q: the StatefulSet %s makes claims of class %q, which Kubernetes does not change. Set it back" .path ($class | default "") $name ($old.spec.storageClassName | default "")) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "paceline.checkShardChanges" -}}
{{- $v := .root.Values -}}
{{- include "paceline.checkClaimTemplate" (dict "root" .root "old" .old "path" "shard" "claim" $v.shard.persistence) -}}
{{- $was := int .old.spec.replicas -}}
{{- /* Shards that drain first go as one set; without that each takes its copies with it. */ -}}
{{- if and (not $v.autoscaling.enabled) (not (include "paceline.drains" .root)) (gt (sub $was (int $v.shard.replicas)) 1) -}}
{{- fail (printf "shard.replicas=%v: this release has %d shards, and together those that go may hold all copies of a segment. Lower it by one, wait until `paceline status` says that there are no problems, and go on; or set shard.handOver.drain=true" $v.shard.replicas $was) -}}
{{- end -}}
{{- end -}}

{{- define "paceline.checkEtcdChanges" -}}
{{- $v := .root.Values -}}
{{- if $v.etcd.enabled -}}
{{- if ne (int .old.spec.replicas) (int $v.etcd.replicas) -}}
{{- fail (printf "etcd.replicas=%v: the etcd of this release has %v members, and its pods cannot change that number: the others would wait for a majority that is gone, or make a second cluster. Set it to %v; for another number move to an etcd of your own (externalEtcd.endpoints) in a new release" $v.etcd.replicas .old.spec.replicas .old.spec.replicas) -}}
{{- end -}}
{{- include "paceline.checkClaimTemplate" (dict "root" .root "old" .old "path" "etcd" "claim" $v.etcd.persistence) -}}
{{- end -}}
{{- end -}}
