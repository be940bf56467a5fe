# A release that is installed again where an earlier one left its claims goes on as it: facts, rows and clocks.
# shellcheck shell=bash

# Jobs and what they hold, and a sum over all rows of the counting one.
contents() { paceline job list && paceline reduce "$counting" counts sum && paceline reduce "$counting" counts rows; }
gone() { [[ -z $(k get pods -l app.kubernetes.io/instance=$release -o name) ]]; }
again() {
  h uninstall "$release" --wait --timeout 120s && until_so 120 gone &&
    h install "$release" "$chart" "${values[@]}" --wait --timeout 90s && whole
}
same() {
  local after
  after=$(contents) && [[ $after == "$before" ]] || { echo "before: $before" && echo "after: $after" && return 1; }
}

install
start count counted --clocks=200 --pause=0
check "a Job counts to its end" complete counted 300
counting=count-$(k get job/counted -o 'jsonpath={.metadata.uid}')
before=$(contents) && says <<<"$before"
claims=$(k get pvc -o name | sort)
check "uninstall, and install again" again
check "the same claims" test "$claims" = "$(k get pvc -o name | sort)"
check "the same jobs and rows" same
count_on after
exact after
check "the old job can be deleted" paceline job delete "$counting"
