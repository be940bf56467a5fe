# The ValidatingAdmissionPolicy of the chart, in a real API server.
# shellcheck shell=bash

sets=statefulset/$release-shard
reason="needs at least 2 shards: each segment has 1 copies besides the first"
scale() { k scale "$sets" --replicas="$1" "${@:2}"; }
patch() { k patch "$sets" --type=merge -p "{\"spec\":{\"replicas\":$1}}"; }
wanted() { k get "$sets" -o 'jsonpath={.spec.replicas}'; }
# The API server has checked the policy's expressions against the types of what it guards.
compiles() {
  local warnings
  [[ $(k get "$policy" -o 'jsonpath={.status.observedGeneration}') == "$(k get "$policy" -o 'jsonpath={.metadata.generation}')" ]] &&
    warnings=$(k get "$policy" -o 'jsonpath={.status.typeChecking.expressionWarnings}') && [[ -z $warnings ]] ||
    { echo "$warnings" && return 1; }
}
allowed() { scale "$1" && whole && until_so 120 spread_over "$1"; }

policy=validatingadmissionpolicy/$namespace.$release-shard
if [[ $(k get --raw /apis/admissionregistration.k8s.io/v1) != *'"validatingadmissionpolicies"'* ]]; then
  skip "this Kubernetes has no ValidatingAdmissionPolicy; 1.30 and later have"
  return 0
fi
install
check "the policy's expressions compile, and fit what they guard" until_so 60 compiles
# A policy takes a moment to be in force.
check "kubectl scale to 1 is refused with the reason" until_so 30 refused "$reason" scale 1 --dry-run=server
refused "$reason" scale 1 | says
check "kubectl scale to 0 is refused" refused "$reason" scale 0
check "kubectl patch to 1 is refused" refused "$reason" patch 1
check "helm upgrade to 1 is refused by the chart" refused "need 2 shards" h upgrade "$release" "$chart" --reuse-values --set shard.replicas=1
check "an upgrade that does not change the number goes through" upgrade log.level=debug
check "three shards are wanted, as before" test "$(wanted)" = 3
check "kubectl scale to 2 goes through" allowed 2
check "kubectl scale to 3 goes through" allowed 3
check "without the guard 1 is accepted" upgrade shard.scaleGuard.enabled=false
check "  by kubectl scale" until_so 30 scale 1 --dry-run=server
