# What the cases share: an installed release, Jobs under it, and checks. Sourced by `run`; starts nothing.
# shellcheck shell=bash

release=paceline chart=$root/deploy/helm/paceline
k() { $kubectl -n "$namespace" "$@"; }
h() { $helm -n "$namespace" "$@"; }

# check WHAT COMMAND…: one test; what it says is shown when it fails. Functions that it runs join their steps by &&, since
# `set -e` is off in them.
check() {
  local what=$1 start=$SECONDS out
  shift
  if out=$("$@" 2>&1); then
    ((++passed)) && echo "ok      $((SECONDS - start)) s  $what"
  else
    ((++failed)) && echo "FAILED  $((SECONDS - start)) s  $what" && tail -n 20 <<<"$out" | sed 's/^/        /'
  fi
}
# A case that this cluster cannot have: it says why, and its verdict is `skipped`.
skip() { skipped=$*; }
says() { sed 's/^/        /'; }

# until_so SECONDS COMMAND…: tries it until it succeeds; what it said at last, if it does not.
until_so() {
  local end=$((SECONDS + $1)) out
  shift
  until out=$("$@" 2>&1); do
    if ((SECONDS >= end)); then echo "not in time: $*" && echo "$out" && return 1; fi
    sleep 0.5
  done
}
# refused WORDS COMMAND…: it fails, and says these words.
refused() {
  local words=$1 out
  shift
  if out=$("$@" 2>&1); then echo "it was not refused: $*" && echo "$out" && return 1; fi
  grep -qF -- "$words" <<<"$out" || { echo "refused, without the words '$words': $out" && return 1; }
  echo "$out"
}

# $asked: the shard whose pod asks for the cluster's state.
paceline() { k exec "${asked:-$release-shard-0}" -c shard -- paceline "$@"; }
# tells EXPRESSION: in Python, of `status`, the reply of `paceline status --json`.
tells() { paceline status --json | python3 -c "import json, sys; status = json.load(sys.stdin); print($1)"; }
is_well() {
  local said
  said=$(paceline status) && echo "$said" && [[ $said == *'No problems'* ]]
}
# Every shard is ready, and the cluster has every copy.
whole() {
  k rollout status "statefulset/$release-shard" --timeout=300s &&
    k rollout status "deployment/$release-coordinator" --timeout=120s && until_so 120 is_well
}
# Since the coordinator started.
takeovers() { tells 'status.get("takeovers", 0)'; }
# The shards and how many segments each holds, as "paceline-shard-0=43 …".
holdings() {
  tells '" ".join(sorted("%s=%d" % (s["info"]["name"], s.get("primaries", 0) + s.get("replicas", 0)) for s in status["shards"]))'
}
# Each of N shards lives and holds some segments, and none moves.
spread_over() {
  [[ $(tells 'len([s for s in status["shards"] if s.get("alive") and s.get("primaries", 0) + s.get("replicas", 0)]), len(status["shards"]), "moves" in status') == "$1 $1 False" ]]
}

# install VALUE…: a release of its own; the case ends here if that fails.
install() {
  check "helm install, ready within 90 s" h install "$release" "$chart" "${values[@]}" "${@/#/--set=}" --wait --timeout 90s
  if ((failed)); then k get pods && ended=1 && exit 1; fi
  job_image=$(k get "statefulset/$release-shard" -o 'jsonpath={.spec.template.spec.containers[0].image}')
  check "every segment has its copies" whole
}
# The image that `install` would give to shards. A helm that was built from its source knows no release of Kubernetes by itself.
image_of() {
  local kubernetes
  kubernetes=$(k get --raw /version | sed -n 's/.*"gitVersion": *"\(v[0-9.]*\).*/\1/p')
  h template "$release" "$chart" "${values[@]}" --kube-version "$kubernetes" -s templates/shard.yaml |
    sed -n 's/^ *image: *"\?\([^"]*\)"\?$/\1/p' | tail -n1
}
# upgrade VALUE…
upgrade() { h upgrade "$release" "$chart" --reuse-values "${@/#/--set=}" --timeout 600s && whole; }

# start JOB NAME ARGUMENT…: a Job of deploy/jobs under another name, with changed or further arguments.
start() {
  local file=$1 name=$2
  shift 2
  k create --dry-run=client -o json -f "$root/deploy/jobs/$file.yaml" | python3 "$root/tests/e2e/job.py" \
    --name "$name" --image "$job_image" -- "$@" | k apply -f - >/dev/null
}
# Whether a Job's workers train, by their logs.
logs_say() { grep -q "$2" <<<"$(k logs -l "job-name=$1" --tail 5 --prefix)"; }
trains() { until_so 90 logs_say "$1" "$2" || { k get pods && return 1; }; }
count_on() {
  start count "$1" --clocks=8000000 "${@:2}"
  check "a counting Job counts" trains "$1" clock=
}
train_on() {
  start sparse-lr "$1" "${@:2}"
  check "a training Job trains" trains "$1" epoch
}
# The clock that a counting Job told last.
last_clock() { k logs -l "job-name=$1" --tail=1 | sed -n 's/.*clock=\([0-9]*\).*/\1/p' | sort -n | tail -n1; }
is_beyond() { (($(last_clock "$1") > $2)); }
goes_on() {
  local before
  before=$(last_clock "$1") && until_so 90 is_beyond "$1" "$before" || { k get pods && return 1; }
}
complete() {
  k wait --for=condition=complete "job/$1" --timeout="${2:-600}s" &&
    [[ $(k get "job/$1" -o 'jsonpath={.status.failed}') == "${3:-}" ]]
}
last_words() { k logs -l "job-name=$1,batch.kubernetes.io/job-completion-index=0" --tail=1 | says; }
# Tells a counting Job to stop, and sees that its counts are right and that none of its pods has failed.
counts() {
  local pod
  for pod in $(k get pods -l "job-name=$1" -o name); do k exec "$pod" -- sh -c 'kill -USR1 1' || return 1; done
  if ! complete "$1" 120; then k get pods && k logs -l "job-name=$1" --tail=5 && return 1; fi
  k logs -l "job-name=$1" --tail=2 | grep 'ok, all'
}
exact() { check "counts of $1 are exact, no pod of it failed" counts "$1"; }
# What each worker of a counting Job says of its waits.
waits() { k logs -l "job-name=$1" --tail=3 | sed -n 's/^paceline-count: \(worker=.*\)/\1/p'; }

# What a case leaves behind: also objects of the whole Kubernetes cluster, which go with the release only.
clean_up() {
  h uninstall "$release" --ignore-not-found --wait=false >/dev/null 2>&1 || true
  k delete pods --all --grace-period=0 --force >/dev/null 2>&1 || true
  $kubectl delete namespace "$namespace" --timeout=120s >/dev/null 2>&1 ||
    echo "the namespace $namespace does not go; see what holds it: $kubectl describe namespace $namespace"
}
