# What nobody planned, under a training Job with a counting one beside it.
# shellcheck shell=bash

exists() { k get "$1" -o name; }
# delete_now POD: as a node that goes would, without a hand-over; then the cluster is whole again under the pod's name.
delete_now() {
  k delete "$1" --grace-period=0 --force --wait=true && until_so 60 exists "$1" && whole
}
delete_gently() { k delete "$1" --wait=true && whole; }
# All shards and coordinators: what they were is on their disks only.
are_there() { (($(k get pods "${@:2}" -o name | wc -l) == $1)); }
delete_everything() {
  local before pods=(-l 'app.kubernetes.io/component in (shard,coordinator)')
  before=$(k get pods "${pods[@]}" -o name | wc -l) &&
    k delete pods "${pods[@]}" --grace-period=0 --force --wait=true && until_so 60 are_there "$before" "${pods[@]}" && whole
}
# Deletes a worker's pod; its successor trains under the same index.
another_trains() {
  local next
  next=$(k get pods -l job-name=storm,batch.kubernetes.io/job-completion-index=2 -o name | grep -v "^$1$") &&
    grep -q epoch <<<"$(k logs "$next" --tail=3)"
}
comes_back() { k delete "$1" --grace-period=0 --force && until_so 90 another_trains "$1"; }
delete_coordinators() {
  local pod
  for pod in $(k get pods -l app.kubernetes.io/component=coordinator -o name); do k delete "$pod" --wait=true && whole || return 1; done
}
evict_now() {
  k create --raw "/api/v1/namespaces/$namespace/pods/$1/eviction" -f - <<JSON
{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"$1","namespace":"$namespace"}}
JSON
}
# While one is away the next is refused.
evict_once() {
  k wait "pdb/$release-shard" --for=jsonpath='{.status.disruptionsAllowed}'=1 --timeout=120s && evict_now "$release-shard-1" &&
    refused "disruption budget" evict_now "$release-shard-2" && whole
}

install
train_on storm --epochs="${E2E_EPOCHS:-600}"
count_on counted
worker=$(k get pods -l job-name=storm,batch.kubernetes.io/job-completion-index=2 -o name | head -n1)
check "delete a worker: it comes back as a new session" comes_back "$worker"
for pod in $(k get pods -l app.kubernetes.io/component=shard -o name); do
  check "delete $pod, gently" delete_gently "$pod"
  check "delete $pod, at once" delete_now "$pod"
done
check "delete each coordinator" delete_coordinators
check "evict a shard; the next eviction is refused" evict_once
check "helm upgrade of a value: rolling restart" upgrade log.level=debug
exact counted
waits counted | says
check "helm upgrade: updates are acknowledged as durable" upgrade shard.acks=durable
count_on durable
check "kill all shards and coordinators at once" delete_everything
check "the counting Job goes on" goes_on durable
exact durable
waits durable | says
check "the training Job comes to its reference loss" k wait --for=condition=complete job/storm --timeout=900s
last_words storm
