# `kubectl drain` of the node of a shard, of the shards' pods only. Where other nodes have room all of its shards move there. On
# the only node the first one finds no place, and the budget then keeps the others: that must hold, and jobs must go on.
# shellcheck shell=bash

pods=(-l "app.kubernetes.io/instance=$release,app.kubernetes.io/component=shard")
drain() {
  k drain "$node" --pod-selector="app.kubernetes.io/instance=$release,app.kubernetes.io/component=shard,e2e=$namespace" \
    --ignore-daemonsets --delete-emptydir-data --timeout="${1}s"
}
undo() { [[ -z ${node:-} ]] || k uncordon "$node" >/dev/null; }
# How many of the shards do not run.
away() { k get pods "${pods[@]}" -o 'jsonpath={range .items[*]}{.status.phase}{"\n"}{end}' | grep -vc Running; }
one_is_away() { [[ $(away) == 1 ]]; }

# By the label, pods of other releases on the node stay where they are.
install "shard.podLabels.e2e=$namespace"
count_on counted
before=$(takeovers)
asked=$release-shard-0
node=$(k get pod "$release-shard-1" -o 'jsonpath={.spec.nodeName}')
others=$($kubectl get nodes -o name | grep -vcx "node/$node") || true
if ((others)); then
  check "kubectl drain $node: all its shards move, one at a time" drain 300
else
  # Evicts in the order of names; the shard that is asked must stay.
  check "kubectl drain of the only node: the budget ends it" refused "disruption budget" drain 40
  check "one shard is away, and waits for a node" until_so 60 one_is_away
  asked=$(k get pods "${pods[@]}" --field-selector=status.phase=Running -o 'jsonpath={.items[0].metadata.name}')
fi
check "the counting Job goes on meanwhile" goes_on counted
k uncordon "$node" >/dev/null
check "uncordon: the cluster is whole" whole
check "nothing was taken over: $before before" test "$before" = "$(takeovers)"
exact counted
waits counted | says
