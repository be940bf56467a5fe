{{/* What the schema cannot say: how values are written, and how they fit each other. Each refusal is a sentence that names the
value, what was expected, and what to do. Checks of what is installed already are in _changes.tpl. */}}

{{- define "paceline.check" -}}
{{- include "paceline.checkWords" . -}}
{{- include "paceline.checkNames" . -}}
{{- include "paceline.checkAutoscaling" . -}}
{{- include "paceline.checkCluster" . -}}
{{- include "paceline.checkPorts" . -}}
{{- include "paceline.checkMemory" . -}}
{{- include "paceline.checkTimes" . -}}
{{- include "paceline.checkBudgets" . -}}
{{- include "paceline.checkPods" . -}}
{{- include "paceline.checkArgs" . -}}
{{- include "paceline.checkSnapshots" . -}}
{{- include "paceline.checkOutside" . -}}
{{- include "paceline.checkMonitoring" . -}}
{{- include "paceline.checkChanges" . -}}
{{- end -}}

{{/* list PATH VALUE KIND: refuses a value that is not written as its kind is. Empty ones are somebody else's business. */}}
{{- define "paceline.expect" -}}
{{- $kinds := dict
  "registry" (list "^[A-Za-z0-9.-]+(:[0-9]+)?(/[a-z0-9._/-]+)?/?$" "a registry such as registry.example:5000/team, without a scheme")
  "repository" (list "^([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*$" "a repository such as registry.example/paceline, without spaces, tag or digest; image.tag and image.digest are values of their own")
  "tag" (list "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$" "a tag such as 0.1.0: letters, digits, '.', '_' and '-'")
  "digest" (list "^sha256:[0-9a-f]{64}$" "sha256: and 64 hexadecimal digits; the registry shows it beside the tag")
  "name" (list "^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$" "the name of an object: lower-case letters, digits, '-' and '.'")
  "class" (list "^(-|[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?)$" "the name of a StorageClass: lower-case letters, digits, '-' and '.'; or \"-\" for none")
  "key" (list "^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$" "the key of a label, such as topology.kubernetes.io/zone")
  "label" (list "^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$" "a label's value: at most 63 letters, digits, '.', '_' and '-'")
  "size" (list "^[0-9]+([.][0-9]+)?(B|KiB|MiB|GiB|TiB|kB|MB|GB|TB)$" "a size with its unit, such as 512MiB or 4GiB")
  "quantity" (list "^[0-9]+([.][0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$" "a quantity of Kubernetes that is not negative, such as 500m or 2Gi")
  "storage" (list "^[0-9]+([.][0-9]+)?(k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)$" "a size with its unit, such as 10Gi")
  "duration" (list "^([0-9]+([.][0-9]+)?(ms|s|m|h))+$" "a duration with its unit, such as 10s or 500ms")
  "interval" (list "^([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$" "a duration as Prometheus writes it, such as 15s")
  "cron" (list "^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[0-9A-Za-z*/,?-]+( +[0-9A-Za-z*/,?-]+){4})$" "five fields as cron has them, such as \"0 * * * *\" for every hour, or @daily")
  "endpoint" (list "^([[][0-9a-fA-F:]+[]]|[A-Za-z0-9._-]+):[0-9]+$" "host:port, without a scheme")
  "host" (list "^[A-Za-z0-9.-]*([{]ordinal[}])?[A-Za-z0-9.-]*$" "a name or address without a port, in which {ordinal} stands for the shard's number")
  "job" (list "^[A-Za-z0-9_][A-Za-z0-9._/:-]*$" "the name of a job: letters, digits and ._-/:")
  "url" (list "^https?://[^ \"'\\\\]+$" "an address that begins with http:// or https://")
-}}
{{- $path := index . 0 -}}
{{- $value := index . 1 -}}
{{- $kind := index $kinds (index . 2) -}}
{{- $text := ternary (printf "%.3f" (float64 (ternary $value 0 (kindIs "float64" $value)))) (toString $value) (kindIs "float64" $value) -}}
{{- if and (not (kindIs "invalid" $value)) (ne $text "") (not (regexMatch (first $kind) $text)) -}}
{{- fail (printf "%s=%q: expected %s" $path $text (last $kind)) -}}
{{- end -}}
{{- end -}}

{{/* As expect, and refuses what is empty. */}}
{{- define "paceline.require" -}}
{{- if eq (index . 1 | default "" | toString) "" -}}
{{- fail (printf "%s is empty: a value is needed; leave it out to have the chart's default" (index . 0)) -}}
{{- end -}}
{{- include "paceline.expect" . -}}
{{- end -}}

{{/* A size or quantity as a number of bytes, or of units; requests and limits may be numbers. */}}
{{- define "paceline.number" -}}
{{- $text := ternary (printf "%.3f" (float64 (ternary . 0 (kindIs "float64" .)))) (toString .) (kindIs "float64" .) -}}
{{- $units := dict "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 "Pi" 1125899906842624.0 "Ei" 1152921504606846976.0 -}}
{{- $unit := regexFind "[A-Za-z]+$" $text | trimSuffix "B" -}}
{{- printf "%f" (mulf (regexFind "^[0-9.]+" $text | float64) (ternary (get $units $unit) 1.0 (hasKey $units $unit))) -}}
{{- end -}}

{{/* A duration in milliseconds. */}}
{{- define "paceline.milliseconds" -}}
{{- $units := dict "ms" 1.0 "s" 1000.0 "m" 60000.0 "h" 3600000.0 -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9.]+(ms|s|m|h)" . -1 -}}
{{- $sum = addf $sum (mulf (regexFind "^[0-9.]+" . | float64) (get $units (regexFind "[a-z]+$" .))) -}}
{{- end -}}
{{- printf "%f" $sum -}}
{{- end -}}

{{- define "paceline.checkWords" -}}
{{- $v := .Values -}}
{{- include "paceline.expect" (list "global.imageRegistry" $v.global.imageRegistry "registry") -}}
{{- range $path, $image := dict "image" $v.image "etcd.image" $v.etcd.image -}}
{{- include "paceline.require" (list (print $path ".repository") $image.repository "repository") -}}
{{- include "paceline.expect" (list (print $path ".tag") $image.tag "tag") -}}
{{- include "paceline.expect" (list (print $path ".digest") $image.digest "digest") -}}
{{- end -}}
{{- range $path, $secrets := dict "global.imagePullSecrets" $v.global.imagePullSecrets "imagePullSecrets" $v.imagePullSecrets -}}
{{- range $secrets -}}
{{- include "paceline.require" (list $path (ternary . (get (ternary dict . (kindIs "string" .)) "name") (kindIs "string" .)) "name") -}}
{{- end -}}
{{- end -}}
{{- include "paceline.expect" (list "serviceAccount.name" $v.serviceAccount.name "name") -}}
{{- include "paceline.expect" (list "global.storageClass" $v.global.storageClass "class") -}}
{{- range $path, $claim := dict "coordinator" $v.coordinator.persistence "shard" $v.shard.persistence "etcd" $v.etcd.persistence -}}
{{- include "paceline.expect" (list (print $path ".persistence.storageClass") $claim.storageClass "class") -}}
{{- include "paceline.expect" (list (print $path ".persistence.existingClaim") $claim.existingClaim "name") -}}
{{- include "paceline.require" (list (print $path ".persistence.size") $claim.size "storage") -}}
{{- if le (include "paceline.number" $claim.size | float64) 0.0 -}}
{{- fail (printf "%s.persistence.size=%s: a claim of no size holds nothing; expected a size such as 10Gi" $path $claim.size) -}}
{{- end -}}
{{- end -}}
{{- include "paceline.expect" (list "snapshots.existingClaim" $v.snapshots.existingClaim "name") -}}
{{- range $v.snapshots.jobs }}{{ include "paceline.require" (list "snapshots.jobs" . "job") }}{{ end -}}
{{- include "paceline.expect" (list "snapshots.schedule" $v.snapshots.schedule "cron") -}}
{{- range $v.externalEtcd.endpoints }}{{ include "paceline.require" (list "externalEtcd.endpoints" . "endpoint") }}{{ end -}}
{{- include "paceline.expect" (list "shard.zone.label" $v.shard.zone.label "key") -}}
{{- include "paceline.expect" (list "shard.external.host" $v.shard.external.host "host") -}}
{{- include "paceline.expect" (list "metrics.clusterName" $v.metrics.clusterName "label") -}}
{{- include "paceline.require" (list "metrics.rules.runbookBase" $v.metrics.rules.runbookBase "url") -}}
{{- end -}}

{{/* Names and labels of what is made. */}}
{{- define "paceline.checkNames" -}}
{{- $full := include "paceline.fullname" . -}}
{{- $pattern := "^[a-z]([a-z0-9-]*[a-z0-9])?$" -}}
{{- range $path, $value := dict "nameOverride" .Values.nameOverride "fullnameOverride" .Values.fullnameOverride -}}
{{- if and $value (not (regexMatch $pattern $value)) -}}
{{- fail (printf "%s=%q: names of Services are made from it; expected lower-case letters, digits and '-', a letter first and no '-' last" $path $value) -}}
{{- end -}}
{{- end -}}
{{- if not (regexMatch $pattern $full) -}}
{{- fail (printf "the release's name %q: names of Services begin with it; expected lower-case letters, digits and '-', a letter first. Choose another name, or set fullnameOverride" .Release.Name) -}}
{{- end -}}
{{- $own := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" -}}
{{- range $path, $labels := dict "commonLabels" .Values.commonLabels "coordinator.podLabels" .Values.coordinator.podLabels "shard.podLabels" .Values.shard.podLabels "etcd.podLabels" .Values.etcd.podLabels "snapshots.podLabels" .Values.snapshots.podLabels "test.podLabels" .Values.test.podLabels "metrics.serviceMonitor.labels" .Values.metrics.serviceMonitor.labels "metrics.rules.labels" .Values.metrics.rules.labels "metrics.dashboards.labels" .Values.metrics.dashboards.labels -}}
{{- range $key, $value := $labels -}}
{{- include "paceline.require" (list $path $key "key") -}}
{{- include "paceline.expect" (list (printf "%s.%s" $path $key) $value "label") -}}
{{- if has $key $own -}}
{{- fail (printf "%s: %s selects the pods of the release and cannot be changed; use another key" $path $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* How many there are, and where their facts and rows are. */}}
{{- define "paceline.checkAutoscaling" -}}
{{- $a := .Values.autoscaling -}}
{{- include "paceline.expect" (list "autoscaling.prometheus" $a.prometheus "url") -}}
{{- if $a.enabled -}}
{{- $copies := int .Values.shard.replication -}}
{{- if le (int $a.minReplicas) $copies -}}
{{- fail (printf "autoscaling.minReplicas=%v: %d copies of each segment and the first one need %d shards. Raise it, or lower shard.replication" $a.minReplicas $copies (add1 $copies)) -}}
{{- end -}}
{{- if lt (int $a.maxReplicas) (int $a.minReplicas) -}}
{{- fail (printf "autoscaling.maxReplicas=%v is less than autoscaling.minReplicas=%v; raise it" $a.maxReplicas $a.minReplicas) -}}
{{- end -}}
{{- if not (include "paceline.drains" .) -}}
{{- fail "autoscaling.enabled=true: shards that an autoscaler takes away have to drain first; set shard.handOver.enabled and shard.handOver.drain to true" -}}
{{- end -}}
{{- if and (eq $copies 0) (not .Values.shard.persistence.enabled) -}}
{{- fail "autoscaling.enabled=true: with shard.replication=0 and shard.persistence.enabled=false a shard that is taken away before its drain has ended loses its rows. Set shard.replication to 1 or more, or shard.persistence.enabled=true" -}}
{{- end -}}
{{- if eq $a.kind "keda" -}}
{{- if not $a.prometheus -}}
{{- fail "autoscaling.prometheus is empty: with autoscaling.kind=keda, KEDA asks a Prometheus that has the chart's rules; expected its address, such as http://prometheus.monitoring:9090" -}}
{{- end -}}
{{- if and (include "paceline.knowsKinds" .) (not (.Capabilities.APIVersions.Has "keda.sh/v1alpha1/ScaledObject")) -}}
{{- fail "autoscaling.kind=keda: this cluster does not know ScaledObject, which comes with KEDA. Install that first, or set autoscaling.kind=hpa" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "paceline.checkCluster" -}}
{{- $v := .Values -}}
{{- $etcd := include "paceline.usesEtcd" . -}}
{{- $replicas := include "paceline.shardsMost" . | int -}}
{{- $copies := int $v.shard.replication -}}
{{- if and (gt (int $v.coordinator.replicas) 1) (not $etcd) -}}
{{- fail (printf "coordinator.replicas=%v: several coordinators share their facts in etcd, and none is configured. Set etcd.enabled=true, or externalEtcd.endpoints, or coordinator.replicas=1" $v.coordinator.replicas) -}}
{{- end -}}
{{- if and $v.etcd.enabled $v.externalEtcd.endpoints -}}
{{- fail "etcd.enabled and externalEtcd.endpoints exclude each other: unset one of them" -}}
{{- end -}}
{{- if ge $copies $replicas -}}
{{- fail (printf "shard.replication=%d: %d copies of each segment and the first one need %d shards; shard.replicas is %d. Raise it, or lower shard.replication" $copies $copies (add1 $copies) $replicas) -}}
{{- end -}}
{{- $segments := 1 -}}
{{- range until (int $v.coordinator.ringBits) }}{{ $segments = mul 2 $segments }}{{ end -}}
{{- if gt $replicas (int $segments) -}}
{{- fail (printf "shard.replicas=%d: a ring of 2^coordinator.ringBits = %d segments has nothing for some of them; lower shard.replicas, or, for a new cluster, raise coordinator.ringBits" $replicas (int $segments)) -}}
{{- end -}}
{{- if and (eq $v.shard.acks "durable") (not $v.shard.persistence.enabled) -}}
{{- fail "shard.acks=durable: nothing is on a disk; set shard.persistence.enabled=true as well" -}}
{{- end -}}
{{- if and $v.etcd.enabled (not $v.etcd.persistence.enabled) -}}
{{- if gt (int $v.etcd.replicas) 1 -}}
{{- fail (printf "etcd.persistence.enabled=false: a member whose pod is replaced comes back empty, and the other members of %v refuse it for good. Set etcd.persistence.enabled=true, or, to try things out, etcd.replicas=1 and shard.persistence.enabled=false" $v.etcd.replicas) -}}
{{- else if $v.shard.persistence.enabled -}}
{{- fail "etcd.persistence.enabled=false: when etcd's pod is replaced the cluster's facts are gone, and no new cluster accepts the rows in the shards' claims. Set etcd.persistence.enabled=true, or, to try things out, shard.persistence.enabled=false" -}}
{{- end -}}
{{- end -}}
{{- if and (not $etcd) (not $v.coordinator.persistence.enabled) $v.shard.persistence.enabled -}}
{{- fail "coordinator.persistence.enabled=false: when the coordinator's pod is replaced the cluster's facts are gone, and no new cluster accepts the rows in the shards' claims. Set coordinator.persistence.enabled=true, or, to try things out, shard.persistence.enabled=false" -}}
{{- end -}}
{{- if and $v.shard.persistence.enabled (eq $v.shard.persistence.retention.whenScaled "Delete") (eq $copies 0) -}}
{{- fail "shard.persistence.retention.whenScaled=Delete: with shard.replication=0 the claim of a shard has the only copy of its rows. Set it to Retain, or shard.replication to 1 or more" -}}
{{- end -}}
{{- if and $v.shard.persistence.enabled (eq $v.shard.persistence.retention.whenScaled "Delete") (not (include "paceline.drains" .)) -}}
{{- fail "shard.persistence.retention.whenScaled=Delete: shards that do not drain take their copies with them, and two that go at once may have all copies of a segment. Set it to Retain, or shard.handOver.enabled and shard.handOver.drain to true" -}}
{{- end -}}
{{- end -}}

{{- define "paceline.checkPorts" -}}
{{- $metrics := int .Values.metrics.port -}}
{{- $all := list (list "coordinator.port" .Values.coordinator.port) (list "shard.port" .Values.shard.port) (list "shard.peerPort" .Values.shard.peerPort) (list "metrics.port" .Values.metrics.port) -}}
{{- range $all -}}
{{- if lt (int (last .)) 1024 -}}
{{- fail (printf "%s=%d: pods run without the right to open ports under 1024; choose one from 1024 to 65535. Clients outside may still find port %d at a load balancer" (first .) (int (last .)) (int (last .))) -}}
{{- end -}}
{{- end -}}
{{- $equal := "%s and %s are both %d: one pod cannot open a port twice; choose different ones" -}}
{{- if eq (int .Values.coordinator.port) $metrics }}{{ fail (printf $equal "coordinator.port" "metrics.port" $metrics) }}{{ end -}}
{{- if eq (int .Values.shard.port) $metrics }}{{ fail (printf $equal "shard.port" "metrics.port" $metrics) }}{{ end -}}
{{- if eq (int .Values.shard.peerPort) $metrics }}{{ fail (printf $equal "shard.peerPort" "metrics.port" $metrics) }}{{ end -}}
{{- if eq (int .Values.shard.port) (int .Values.shard.peerPort) }}{{ fail (printf $equal "shard.port" "shard.peerPort" (int .Values.shard.port)) }}{{ end -}}
{{- end -}}

{{- define "paceline.checkMemory" -}}
{{- $v := .Values -}}
{{- range $path, $resources := dict "coordinator" $v.coordinator.resources "shard" $v.shard.resources "etcd" $v.etcd.resources "snapshots" $v.snapshots.resources "test" $v.test.resources -}}
{{- $resources := $resources | default dict -}}
{{- range $what, $amounts := dict "requests" $resources.requests "limits" $resources.limits -}}
{{- range $key, $amount := $amounts -}}
{{- $name := printf "%s.resources.%s.%s" $path $what $key -}}
{{- include "paceline.require" (list $name $amount "quantity") -}}
{{- if and (eq $key "memory") (hasSuffix "m" (toString $amount)) -}}
{{- fail (printf "%s=%s: m is a thousandth of a byte; for mebibytes write %si" $name $amount (toString $amount | trimSuffix "m" | printf "%sM")) -}}
{{- end -}}
{{- if and (eq $what "limits") (le (include "paceline.number" $amount | float64) 0.0) -}}
{{- fail (printf "%s=%v: nothing runs with a limit of 0; leave it out for none" $name $amount) -}}
{{- end -}}
{{- $limit := get ($resources.limits | default dict) $key -}}
{{- if and (eq $what "requests") $limit -}}
{{- include "paceline.require" (list (printf "%s.resources.limits.%s" $path $key) $limit "quantity") -}}
{{- if gt (include "paceline.number" $amount | float64) (include "paceline.number" $limit | float64) -}}
{{- fail (printf "%s=%v: more than %s.resources.limits.%s=%v, which Kubernetes refuses; lower the request or raise the limit" $name $amount $path $key $limit) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $budgets := 0.0 -}}
{{- range $path, $size := dict "shard.memoryBudget" $v.shard.memoryBudget "shard.stagingBudget" $v.shard.stagingBudget -}}
{{- include "paceline.require" (list $path $size "size") -}}
{{- $bytes := include "paceline.number" $size | float64 -}}
{{- if le $bytes 0.0 -}}
{{- fail (printf "%s=%s: shards would refuse every push; expected a size such as 512MiB" $path $size) -}}
{{- end -}}
{{- $budgets = addf $budgets $bytes -}}
{{- end -}}
{{- with ($v.shard.resources | default dict).limits -}}
{{- if and .memory (gt $budgets (include "paceline.number" .memory | float64)) -}}
{{- fail (printf "shard.memoryBudget=%s and shard.stagingBudget=%s together are more than shard.resources.limits.memory=%v: the shard would be killed before it refuses a push. Raise the limit to 1.5 times their sum, or lower them" $v.shard.memoryBudget $v.shard.stagingBudget .memory) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "paceline.checkTimes" -}}
{{- $c := .Values.coordinator -}}
{{- include "paceline.require" (list "coordinator.sessionTimeout" $c.sessionTimeout "duration") -}}
{{- include "paceline.require" (list "coordinator.keepAlive" $c.keepAlive "duration") -}}
{{- $keepAlive := include "paceline.milliseconds" $c.keepAlive | float64 -}}
{{- if le $keepAlive 0.0 -}}
{{- fail (printf "coordinator.keepAlive=%s: expected more than 0, such as 1s" $c.keepAlive) -}}
{{- end -}}
{{- if lt (include "paceline.milliseconds" $c.sessionTimeout | float64) (mulf 2.0 $keepAlive) -}}
{{- fail (printf "coordinator.sessionTimeout=%s: one lost keep-alive must not evict a worker; expected at least twice coordinator.keepAlive=%s. Raise the one or lower the other" $c.sessionTimeout $c.keepAlive) -}}
{{- end -}}
{{- if and .Values.shard.handOver.enabled (lt (int .Values.shard.terminationGracePeriodSeconds) (add 30 .Values.shard.handOver.timeoutSeconds | int)) -}}
{{- fail (printf "shard.terminationGracePeriodSeconds=%v: must be more than shard.handOver.timeoutSeconds=%v by 30 or more, the time of a last answer and of the shard's own end, or shards are killed while they hand over. Raise it, or lower shard.handOver.timeoutSeconds" .Values.shard.terminationGracePeriodSeconds .Values.shard.handOver.timeoutSeconds) -}}
{{- end -}}
{{- range $path, $values := dict "coordinator" .Values.coordinator "shard" .Values.shard "etcd" .Values.etcd -}}
{{- range $name := list "startupProbe" "livenessProbe" "readinessProbe" -}}
{{- $probe := get $values $name -}}
{{- if and (ne $name "startupProbe") (gt (int $probe.timeoutSeconds) (int $probe.periodSeconds)) -}}
{{- fail (printf "%s.%s.timeoutSeconds=%v: the next probe begins after periodSeconds=%v; lower the one or raise the other" $path $name $probe.timeoutSeconds $probe.periodSeconds) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* list PATH BUDGET PODS MOST WHY: a disruption budget that lets some pods go, and not more than MOST of PODS. */}}
{{- define "paceline.checkBudget" -}}
{{- $path := printf "%s.podDisruptionBudget.maxUnavailable" (index . 0) -}}
{{- $budget := index . 1 -}}
{{- $pods := index . 2 | float64 -}}
{{- $most := index . 3 | int -}}
{{- if $budget.enabled -}}
{{- $text := toString $budget.maxUnavailable -}}
{{- if not (regexMatch "^[0-9]+%?$" $text) -}}
{{- fail (printf "%s=%s: expected a number of pods, or a share of them such as 30%%" $path $text) -}}
{{- end -}}
{{- $number := int (trimSuffix "%" $text) -}}
{{- if hasSuffix "%" $text }}{{ $number = ceil (divf (mulf $number $pods) 100.0) | int }}{{ end -}}
{{- if eq $number 0 -}}
{{- fail (printf "%s=%s: no node with such a pod could ever be drained; expected at least 1. To have no budget set %s.podDisruptionBudget.enabled=false" $path $text (index . 0)) -}}
{{- end -}}
{{- if gt $number $most -}}
{{- fail (printf "%s=%s: a drain could stop %d at once, and %s; expected at most %d" $path $text $number (index . 4) $most) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "paceline.checkBudgets" -}}
{{- $copies := int .Values.shard.replication -}}
{{- include "paceline.checkBudget" (list "shard" .Values.shard.podDisruptionBudget (include "paceline.shardsMost" .) (max 1 $copies) (printf "shard.replication=%d keeps that many copies besides the first" $copies)) -}}
{{- $coordinators := int .Values.coordinator.replicas -}}
{{- include "paceline.checkBudget" (list "coordinator" .Values.coordinator.podDisruptionBudget .Values.coordinator.replicas (max 1 (sub $coordinators 1)) (printf "of coordinator.replicas=%d one must stay" $coordinators)) -}}
{{- end -}}

{{- define "paceline.checkPods" -}}
{{- $v := .Values -}}
{{- $context := $v.podSecurityContext | default dict -}}
{{- if $v.volumePermissions.enabled -}}
{{- range $key := list "runAsUser" "runAsGroup" -}}
{{- $id := get $context $key -}}
{{- if or (not (hasKey $context $key)) (not (regexMatch "^[0-9]+([.]0+)?$" (toString $id))) -}}
{{- if not (kindIs "float64" $id) -}}
{{- fail (printf "podSecurityContext.%s is not a number: volumePermissions gives the claims to that user and group. Set it, or, where the storage honours fsGroup, volumePermissions.enabled=false" $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $path, $values := dict "coordinator" $v.coordinator "shard" $v.shard "etcd" $v.etcd "snapshots" $v.snapshots "test" $v.test -}}
{{- include "paceline.expect" (list (print $path ".priorityClassName") $values.priorityClassName "name") -}}
{{- $own := list "data" "snapshots" -}}
{{- range $values.extraVolumes -}}
{{- if has .name $own -}}
{{- fail (printf "%s.extraVolumes: the name %s is the chart's own; choose another" $path .name) -}}
{{- end -}}
{{- $own = append $own .name -}}
{{- end -}}
{{- range $values.extraVolumeMounts -}}
{{- if not (has .name $own) -}}
{{- fail (printf "%s.extraVolumeMounts: there is no volume %v; add it to %s.extraVolumes" $path .name $path) -}}
{{- end -}}
{{- end -}}
{{- $names := list $path "volume-owner" -}}
{{- range concat ($values.extraContainers | default list) ($values.extraInitContainers | default list) -}}
{{- if has .name $names -}}
{{- fail (printf "%s.extraContainers: the name %v is taken in this pod; choose another" $path .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- range $values.extraEnv -}}
{{- if has .name (list "PACELINE_COORDINATOR" "POD_NAME" "POD_IP" "HOST_IP" "PACELINE_ZONE") -}}
{{- fail (printf "%s.extraEnv: %s is the chart's own; set the flag that it serves in %s.extraArgs" $path .name $path) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Flags that ports, volumes and names follow are set by their values only. */}}
{{- define "paceline.checkArgs" -}}
{{- $metrics := dict "--metrics-listen" "metrics.port" "--metrics-cluster" "metrics.clusterName" "--snapshot-dir" "snapshots.existingClaim" -}}
{{- $coordinator := merge (dict "--listen" "coordinator.port" "--data-dir" "coordinator.persistence" "--store" "etcd.enabled or externalEtcd.endpoints" "--shards" "shard.replicas" "--statefulset" "shard.handOver.drain" "--replicas" "shard.replication" "--ring-bits" "coordinator.ringBits") $metrics -}}
{{- $shard := merge (dict "--listen" "shard.port" "--peer-listen" "shard.peerPort" "--data-dir" "shard.persistence" "--acks" "shard.acks" "--name" "fullnameOverride" "--coordinator" "coordinator.port") $metrics -}}
{{- if .Values.shard.external.enabled }}{{ $shard = set $shard "--advertise" "shard.external" }}{{ end -}}
{{- $etcd := dict "--name" "fullnameOverride" "--data-dir" "etcd.persistence" "--initial-cluster" "etcd.replicas" "--listen-client-urls" "etcd.enabled" "--listen-peer-urls" "etcd.enabled" -}}
{{- range $path, $both := dict "coordinator" (list .Values.coordinator $coordinator) "shard" (list .Values.shard $shard) "etcd" (list .Values.etcd $etcd) -}}
{{- $fixed := last $both -}}
{{- range $i, $word := (first $both).extraArgs -}}
{{- if and (eq $i 0) (not (hasPrefix "--" $word)) -}}
{{- fail (printf "%s.extraArgs begins with %q: expected flags such as --log-level=debug" $path $word) -}}
{{- end -}}
{{- $flag := regexFind "^--[a-z-]+" $word -}}
{{- if hasKey $fixed $flag -}}
{{- fail (printf "%s.extraArgs: other parts of the pod follow %s; set %s instead" $path $flag (get $fixed $flag)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "paceline.checkSnapshots" -}}
{{- $s := .Values.snapshots -}}
{{- if and $s.schedule (not $s.existingClaim) -}}
{{- fail (printf "snapshots.schedule=%q: there is nowhere to keep snapshots; set snapshots.existingClaim to a ReadWriteMany claim" $s.schedule) -}}
{{- end -}}
{{- if and $s.schedule (not (hasPrefix "@" $s.schedule)) -}}
{{- range $i, $field := regexSplit " +" $s.schedule -1 -}}
{{- $most := index (list 59 23 31 12 7) $i -}}
{{- range regexFindAll "[0-9]+" $field -1 -}}
{{- if gt (int .) $most -}}
{{- fail (printf "snapshots.schedule=%q: %s in the %s is more than %d" $s.schedule . (index (list "minute" "hour" "day of the month" "month" "day of the week") $i) $most) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Clients outside: each part has an address that they reach. */}}
{{- define "paceline.checkOutside" -}}
{{- $v := .Values -}}
{{- $service := $v.coordinator.service -}}
{{- $external := $v.shard.external -}}
{{- if eq $service.type "NodePort" -}}
{{- if and $service.nodePort (or (lt (int $service.nodePort) 30000) (gt (int $service.nodePort) 32767)) -}}
{{- fail (printf "coordinator.service.nodePort=%v: expected a port of nodes, 30000 to 32767, or 0 for any" $service.nodePort) -}}
{{- end -}}
{{- if and (include "paceline.usesEtcd" .) (not $service.nodePort) -}}
{{- fail "coordinator.service.nodePort=0: coordinators on etcd tell others the port at which they are reached; choose one from 30000 to 32767" -}}
{{- end -}}
{{- if and (gt (int $v.coordinator.replicas) 1) (ne $v.coordinator.antiAffinity "hard") -}}
{{- fail (printf "coordinator.service.type=NodePort: a node's port leads to one coordinator only if no two are on a node; set coordinator.antiAffinity=hard as well, or coordinator.replicas=1") -}}
{{- end -}}
{{- else if $service.nodePort -}}
{{- fail (printf "coordinator.service.nodePort=%v: coordinator.service.type is %s; set it to NodePort, or leave the port out" $service.nodePort $service.type) -}}
{{- end -}}
{{- if and (eq $service.type "LoadBalancer") (gt (int $v.coordinator.replicas) 1) -}}
{{- fail (printf "coordinator.service.type=LoadBalancer: one address for coordinator.replicas=%v leads to any of them, and those that stand by send clients on to an address inside. Set coordinator.replicas=1, or coordinator.service.type=NodePort" $v.coordinator.replicas) -}}
{{- end -}}
{{- if $external.enabled -}}
{{- if eq $external.type "NodePort" -}}
{{- $last := add $external.nodePortBase (sub (include "paceline.shardsMost" . | int) 1) | int -}}
{{- if or (lt (int $external.nodePortBase) 30000) (gt $last 32767) -}}
{{- fail (printf "shard.external.nodePortBase=%v: shards have the ports from there to %d; expected ports of nodes, 30000 to 32767. Choose another base" $external.nodePortBase $last) -}}
{{- end -}}
{{- if and (eq $service.type "NodePort") $service.nodePort (ge (int $service.nodePort) (int $external.nodePortBase)) (le (int $service.nodePort) $last) -}}
{{- fail (printf "coordinator.service.nodePort=%v: a shard has it, as shards have the ports %v to %d from shard.external.nodePortBase; choose another" $service.nodePort $external.nodePortBase $last) -}}
{{- end -}}
{{- else if and (not (contains "{ordinal}" ($external.host | default ""))) (gt (include "paceline.shardsMost" . | int) 1) -}}
{{- fail (printf "shard.external.host=%q: with LoadBalancer each shard has an address of its own; expected a name with {ordinal} in it, such as shard-{ordinal}.ml.example, that your DNS leads to the Services" ($external.host | default "")) -}}
{{- else if not $external.host -}}
{{- fail "shard.external.host is empty: a shard cannot know the address of its load balancer; expected a name such as shard-{ordinal}.ml.example, that your DNS leads to the Service" -}}
{{- end -}}
{{- if eq $service.type "ClusterIP" -}}
{{- fail "shard.external.enabled=true: clients outside reach no coordinator; set coordinator.service.type to NodePort or LoadBalancer as well" -}}
{{- end -}}
{{- end -}}
{{- if and (or $external.enabled (ne $service.type "ClusterIP")) $v.networkPolicy.enabled (not (contains "ipBlock" (toYaml $v.networkPolicy.jobs))) -}}
{{- fail "networkPolicy.jobs names no ipBlock: the policies would keep out the clients outside whom shard.external or coordinator.service.type lets in. Add their addresses, as {ipBlock: {cidr: 10.0.0.0/8}}, or set networkPolicy.enabled=false" -}}
{{- end -}}
{{- end -}}

{{/* A cluster says whether it has the Prometheus operator; `helm template` of its own does not know. */}}
{{- define "paceline.checkMonitoring" -}}
{{- $monitor := .Values.metrics.serviceMonitor -}}
{{- include "paceline.require" (list "metrics.serviceMonitor.interval" $monitor.interval "interval") -}}
{{- include "paceline.expect" (list "metrics.serviceMonitor.scrapeTimeout" $monitor.scrapeTimeout "interval") -}}
{{- if and $monitor.scrapeTimeout (gt (include "paceline.milliseconds" $monitor.scrapeTimeout | float64) (include "paceline.milliseconds" $monitor.interval | float64)) -}}
{{- fail (printf "metrics.serviceMonitor.scrapeTimeout=%s: Prometheus refuses more than the interval, %s; lower the one or raise the other" $monitor.scrapeTimeout $monitor.interval) -}}
{{- end -}}
{{- if include "paceline.knowsKinds" . -}}
{{- range $value, $kind := dict "metrics.serviceMonitor.enabled" "ServiceMonitor" "metrics.rules.enabled" "PrometheusRule" -}}
{{- $wanted := ternary $monitor.enabled $.Values.metrics.rules.enabled (eq $kind "ServiceMonitor") -}}
{{- if and $wanted (not ($.Capabilities.APIVersions.Has (print "monitoring.coreos.com/v1/" $kind))) -}}
{{- fail (printf "%s=true: this cluster does not know %s, which comes with the Prometheus operator. Install that first, or set %s=false (also in presets/ha.yaml); metrics.annotations lets a Prometheus without operator find the pods" $value $kind $value) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
