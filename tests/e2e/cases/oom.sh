# Memory. The budget is kept: pushes beyond it are refused, and no shard is killed. One that is killed for its memory all the
# same (here something else fills its container) costs no update.
# shellcheck shell=bash

shard_0() { k get pod "$release-shard-0" -o "jsonpath={.status.containerStatuses[?(@.name=='shard')].$1}"; }
restarts() {
  k get pods -l app.kubernetes.io/component=shard -o 'jsonpath={.items[*].status.containerStatuses[?(@.name=="shard")].restartCount}'
}
# Some shard does: workers wait for the one that is full first.
refuses() {
  local pod
  for pod in $(k get pods -l app.kubernetes.io/component=shard -o 'jsonpath={.items[*].metadata.name}'); do
    k get --raw "/api/v1/namespaces/$namespace/pods/$pod:9090/proxy/metrics"
  done | sed -n '/^paceline_shard_refusals_total{.*over_budget/p' | grep -v ' 0$'
}
# In the shard's container, so it is the container's memory: until its process is killed, and with it what fills it.
fill() {
  k exec "$release-shard-0" -c shard -- sh -c 'head -c 4G /dev/zero >/fill/it' || true
  until_so 30 killed
}
killed() { [[ $(shard_0 lastState.terminated.reason) == OOMKilled ]]; }
# Kubernetes may have killed it again meanwhile: what fills the memory is still there until this.
empty() { until_so 60 k exec "$release-shard-0" -c sweeper -- rm -f /fill/it && whole; }

shard_image=$(image_of)
cat >"$work/oom.yaml" <<YAML
shard:
  memoryBudget: 16MiB
  stagingBudget: 16MiB
  resources: {requests: {memory: 128Mi}, limits: {memory: 256Mi}}
  extraVolumes: [{name: fill, emptyDir: {medium: Memory}}]
  extraVolumeMounts: [{name: fill, mountPath: /fill}]
  extraContainers:
    - name: sweeper  # what the shard's own container could not do while it is killed again and again
      image: $shard_image
      command: [sleep, infinity]
      volumeMounts: [{name: fill, mountPath: /fill}]
      resources: {requests: {memory: 8Mi}, limits: {memory: 16Mi}}
YAML
values+=(-f "$work/oom.yaml")
install
count_on counted
start count greedy --rows=4000000 --clocks=1
check "beyond the memory budget pushes are refused" until_so 180 refuses
check "the counting Job goes on, its rows are there" goes_on counted
check "no shard was killed for it: restarts $(restarts)" test "$(restarts | tr ' ' '\n' | sort -u)" = 0
greedy=count-$(k get job/greedy -o 'jsonpath={.metadata.uid}')
k delete job/greedy --wait=true >/dev/null
check "its rows go with the job" paceline job delete --force "$greedy"
check "memory that others take: the shard is killed at its container's limit" fill
check "the shard comes back, the cluster is whole" empty
echo "        $(shard_0 lastState.terminated.reason), exit code $(shard_0 lastState.terminated.exitCode)"
check "the counting Job goes on" goes_on counted
exact counted
waits counted | says
