# Runs the commands of docs/fifteen_minutes.md as they are written, but for the namespace, and says when each section began.
# shellcheck shell=bash

# The page as a script: what is indented by four. The namespace is the case's own, which is there already. What begins with `!`
# must fail, which `set -e` alone does not see to.
script() {
  sed -n -e "s/^## \(.*\)/echo \"== \1, after \$SECONDS s\"/p" -e 's/^    //p' "$root/docs/fifteen_minutes.md" |
    sed -e "s/\(namespace[ =s/]*\)ml\b/\1$namespace/g; s/ml\.paceline/$namespace.paceline/g" -e '/^kubectl create namespace/d' \
      -e '/^kubectl delete namespace/d' -e 's/^! \(.*\)/if \1; then echo "this was not refused"; exit 1; fi/'
}
# stand_in NAME COMMAND…: a program of the name. A function would not do: the page ends one of them by its id.
stand_in() { printf '#!/bin/sh\nexec %s "$@"\n' "$(type -P "$2") ${*:3}" >"$work/bin/$1" && chmod +x "$work/bin/$1"; }
run_page() {
  # shellcheck disable=SC2086
  mkdir "$work/bin" && stand_in kubectl $kubectl && stand_in helm $helm && cd "$root" || return 1
  PATH=$work/bin:$PATH bash -euo pipefail "$work/page" >"$work/said" 2>&1 || { cat "$work/said" && return 1; }
}

if ! $kubectl get --raw /apis/external.metrics.k8s.io/v1beta1 >/dev/null 2>&1; then
  skip "this cluster has no external metrics: it takes a Prometheus and prometheus-adapter"
  return 0
fi
script >"$work/page"
check "the page has its commands" test "$(grep -c "namespace $namespace" "$work/page")" -ge 15
check "each of them does what the page says" run_page
grep '^== ' "$work/said" | says
