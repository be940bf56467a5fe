# `kubectl scale` up and down under two Jobs: whoever comes gets its share, whoever goes drains, and nobody takes over.
# shellcheck shell=bash

is_active() { [[ $(k get "job/$1" -o 'jsonpath={.status.active}') == "$2" ]]; }
scale_to() {
  k scale "statefulset/$release-shard" --replicas="$1" && k rollout status "statefulset/$release-shard" --timeout=300s &&
    until_so 300 spread_over "$1" && whole
}

pod_of() { k get pod "$release-shard-4" -o "jsonpath={.metadata.$1}"; }
is_told_to_stop() { [[ -n $(pod_of deletionTimestamp) ]]; }
is_another() { local now && now=$(pod_of uid) && [[ $now != "$1" ]]; }
# A pod that was told to stop ends, whatever is wanted since, and another one comes in its place.
change_of_mind() {
  local before
  before=$(pod_of uid) && k scale "statefulset/$release-shard" --replicas=3 && until_so 30 is_told_to_stop &&
    k scale "statefulset/$release-shard" --replicas=5 && until_so 180 is_another "$before" && whole && until_so 300 spread_over 5
}

install
train_on grown --epochs="${E2E_EPOCHS:-400}"
count_on counted
before=$(takeovers)
check "kubectl scale 3 → 5: the new ones get their share" scale_to 5
holdings | says
check "the counting Job goes on" goes_on counted
check "kubectl scale 5 → 3 → 5 within one drain: they come back, and have their share" change_of_mind
holdings | says
check "the counting Job goes on" goes_on counted
check "kubectl scale 5 → 3: two go as one set" scale_to 3
holdings | says
check "the counting Job goes on" goes_on counted
check "the training Job was under way all the time (E2E_EPOCHS makes it longer)" is_active grown 4
after=$(takeovers)
check "nothing was taken over: takeovers before $before, after $after" test "$before" = "$after"
exact counted
waits counted | says
check "the training Job comes to its reference loss, no pod of it failed" complete grown 900
last_words grown
