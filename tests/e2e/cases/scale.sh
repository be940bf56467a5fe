# `kubectl scale` up and down under two Jobs: whoever comes gets its share, whoever goes drains, and nobody takes over.
# shellcheck shell=bash

is_active() { [[ $(k get "job/$1" -o 'jsonpath={.status.active}') == "$2" ]]; }
scale_to() {
  k scale "statefulset/$release-shard" --replicas="$1" && k rollout status "statefulset/$release-shard" --timeout=300s &&
    until_so 300 spread_over "$1" && whole
}

install
train_on grown --epochs="${E2E_EPOCHS:-400}"
count_on counted
before=$(takeovers)
check "kubectl scale 3 → 5: the new ones get their share" scale_to 5
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
