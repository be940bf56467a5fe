# A rolling restart: what is handed over costs workers little, and no segment leaves its shards.
# shellcheck shell=bash

# The most shards that drained at one time, by the coordinator's page, until the file $work/stop is there.
watch_drains() {
  local most=0 now coordinator
  coordinator=$(k get pods -l app.kubernetes.io/component=coordinator -o 'jsonpath={.items[0].metadata.name}')
  until [[ -e $work/stop ]]; do
    now=$(k get --raw "/api/v1/namespaces/$namespace/pods/$coordinator:9090/proxy/metrics" |
      sed -n 's/^paceline_coordinator_shards_draining{.*} //p')
    : "${now:?the coordinator shows no shards_draining}"
    if ((now > most)); then most=$now; fi
    echo "$most" >"$work/most"
    sleep 0.5
  done
}
# How many segments each shard is primary or replica of, again and again, by its own page: $work/shares.
watch_shares() {
  local pod
  until [[ -e $work/stop ]]; do
    for pod in 0 1 2; do
      k get --raw "/api/v1/namespaces/$namespace/pods/$release-shard-$pod:9090/proxy/metrics" 2>/dev/null |
        awk '/^paceline_shard_segments{.*role="(primary|replica)"/ {n += $2} END {print n + 0}' || true
    done >>"$work/shares"
    sleep 0.5
  done
}
roll() { k rollout restart "statefulset/$release-shard" && whole; }
# The median over the workers of what their clocks took beyond their usual time.
added() { sed -n 's/.*added_wait_ms=\([0-9]*\).*/\1/p' | sort -n |
  awk '{ms[NR] = $1} END {print int((ms[int((NR + 1) / 2)] + ms[int(NR / 2) + 1]) / 2)}'; }
# How many segments other shards hold than before, of two lines of `holdings`. Shares of a number that is no multiple of the
# shards' differ by one, and who has one more may change.
moved() {
  python3 -c 'import sys
before, now = ({k: int(v) for k, v in (w.split("=") for w in line.split())} for line in sys.argv[1:])
print(sum(abs(before[s] - now.get(s, 0)) for s in before) // 2)' "$1" "$2"
}

install
# Two jobs at once, so that both have the machine as it is; one ends before the restart.
count_on calm
count_on rolling
check "60 s with nothing else going on" sleep 60
exact calm
calm=$(waits calm) && says <<<"$calm"
before=$(takeovers) && held=$(holdings)
watch_shares &
watch_drains &
drains=$!
check "kubectl rollout restart: each shard, one after the other" roll
touch "$work/stop"
wait "$drains" || echo "the coordinator's page was away" >"$work/most"
check "no shard drained meanwhile: $(cat "$work/most")" grep -qx 0 "$work/most"
after=$(takeovers)
check "all was handed over: takeovers before $before, after $after" test "$before" = "$after"
most=$(sort -n "$work/shares" | tail -n1)
check "meanwhile nobody got copies in place of one that was away: at most $most segments at a shard" test "$most" -le \
  "$(tr ' =' '\n\n' <<<"$held" | grep -x '[0-9]*' | sort -n | awk '{most = $1} END {print most + 1}')"
now=$(holdings)
check "no rows moved, but for a segment that evens out shares: $held before, $now now" test "$(moved "$held" "$now")" -le 1
exact rolling
rolling=$(waits rolling) && says <<<"$rolling"
echo "        added wait of the median worker: $(($(added <<<"$rolling") / 3)) ms a shard; without a restart: $(added <<<"$calm") ms in all"
