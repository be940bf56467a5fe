# Runs the commands of docs/fifteen_minutes.md as they are written, but for the namespace, and says when each section began.
# shellcheck shell=bash

# The page as a script: what is indented by four. The namespace is the case's own, which is there already.
script() {
  sed -n -e "s/^## \(.*\)/echo \"== \1, after \$SECONDS s\"/p" -e 's/^    //p' "$root/docs/fifteen_minutes.md" |
    sed -e "s/\(namespace[ =s/]*\)ml\b/\1$namespace/g; s/ml\.paceline/$namespace.paceline/g" -e '/^kubectl create namespace/d' \
      -e '/^kubectl delete namespace/d'
}
run_page() {
  (
    cd "$root"
    # shellcheck disable=SC2329
    kubectl() { command $kubectl_program "$@"; }
    # shellcheck disable=SC2329
    helm() { command $helm_program "$@"; }
    export -f kubectl helm
    export kubectl_program=$kubectl helm_program=$helm
    bash -euo pipefail "$work/page" 2>&1 | tee "$work/said"
  )
}

if ! $kubectl get --raw /apis/external.metrics.k8s.io/v1beta1 >/dev/null 2>&1; then
  skip "this cluster has no external metrics: it takes a Prometheus and prometheus-adapter"
  return 0
fi
script >"$work/page"
check "the page has its commands" test "$(grep -c "namespace $namespace" "$work/page")" -ge 15
check "each of them does what the page says" run_page
grep '^== ' "$work/said" | says
