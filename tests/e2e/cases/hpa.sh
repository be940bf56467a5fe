# A HorizontalPodAutoscaler by the signal of the chart, through a real Prometheus and a metrics adapter: up under load, still
# while the load lasts, and down again, one shard at a time.
# shellcheck shell=bash

hold=${E2E_HOLD_SECONDS:-600}
signal() {
  k get --raw "/apis/external.metrics.k8s.io/v1beta1/namespaces/$namespace/paceline_shards_busy?labelSelector=paceline_cluster%3D$namespace.$release"
}
has_signal() { signal | grep '"value"'; }
wanted() { k get "statefulset/$release-shard" -o 'jsonpath={.spec.replicas}'; }
comes_to() { [[ $(wanted) == "$1" ]]; }
# Every number that was wanted, in order.
history() { uniq <"$work/wanted" | paste -sd' '; }
undo() { [[ -z ${watch:-} ]] || kill "$watch" 2>/dev/null || true; }
holds() {
  local before
  before=$(history) && sleep "$hold" && [[ $(history) == "$before" ]] || { history && return 1; }
}
# Each step of the history goes up, until one goes down; after that none goes up.
turned_once() {
  history | python3 -c "
import sys
numbers = [int(word) for word in sys.stdin.read().split()]
most = numbers.index(max(numbers))
assert numbers[:most + 1] == sorted(numbers[:most + 1]), numbers
assert numbers[most:] == sorted(numbers[most:], reverse=True), numbers
assert (numbers[0], max(numbers), numbers[-1]) == (2, 4, 2), numbers"
}

if ! $kubectl get --raw /apis/external.metrics.k8s.io/v1beta1 >/dev/null 2>&1; then
  skip "this cluster has no external metrics: it takes a Prometheus and prometheus-adapter"
  return 0
fi
install shard.replicas=2 shard.threads=1 autoscaling.enabled=true autoscaling.minReplicas=2 autoscaling.maxReplicas=4 \
  autoscaling.busyPercent="${E2E_BUSY_PERCENT:-10}" autoscaling.scaleDownAfterSeconds=60 autoscaling.scaleDownPeriodSeconds=60
# Two minutes after segments have moved for the last time; a shard counts as seen once it is scraped.
check "the adapter has the chart's signal" until_so 240 has_signal
k get "statefulset/$release-shard" -w -o 'jsonpath={.spec.replicas}{"\n"}' >"$work/wanted" &
watch=$!
count_on load --rows=50000 --pause=0
check "under load: 2 → 4" until_so 300 comes_to 4
check "the two get their share" until_so 180 spread_over 4
check "the counting Job goes on" goes_on load
check "no flapping for $hold s" holds
signal | says && echo
exact load
waits load | says
check "without load: 4 → 2, and two shards have all" until_so 900 comes_to 2
check "  two shards have all" until_so 180 spread_over 2
check "the number turned once: $(history)" turned_once
check "every segment has its copies" whole
k describe "hpa/$release-shard" | sed -n '/^Events/,$p' | says
