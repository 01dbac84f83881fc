#!/usr/bin/env bash
# From a fresh machine to the main job: installs, builds, starts the extender on the embedded example
# fleet and asks it, over HTTP as kube-scheduler does, where a few Pods should go. No cluster needed.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

hack/install.sh
build release numafit numafit-extender
numafit=build/release/numafit

# Ports are chosen by the system and read from the log line of the start.
work=build/run
mkdir -p "$work"
log=$work/extender.log
build/release/numafit-extender --no-cluster --simulate-binds \
  --listen 127.0.0.1:0 --read-listen 127.0.0.1:0 >"$work/out" 2>"$log" &
extender=$!
stop() { kill "$extender" 2>/dev/null || true; wait "$extender" 2>/dev/null || true; }
trap stop EXIT

scheduler_url='' read_url=''
for _ in $(seq 100); do
  started=$(grep '"event":"started"' "$log" || true) # read once: the log grows meanwhile
  scheduler_url=$(sed -nE 's/.*"port":([0-9]+).*/http:\/\/127.0.0.1:\1/p' <<<"$started")
  read_url=$(sed -nE 's/.*"readPort":([0-9]+).*/http:\/\/127.0.0.1:\1/p' <<<"$started")
  if [ -n "$read_url" ] && curl -sf "$read_url/readyz" >/dev/null; then break; fi
  kill -0 "$extender" 2>/dev/null || { cat "$log" >&2; exit 1; }
  sleep 0.1
done
[ -n "$read_url" ] || { echo "run.sh: the extender did not start; see $log" >&2; exit 1; }

echo
echo "The fleet:"
"$numafit" nodes --server "$read_url"

# The names that kube-scheduler would send: every node of the fleet.
names=$("$numafit" nodes --server "$read_url" --all |
  awk '$2 ~ /^(none|best-effort|restricted|single-numa-node)$/ {print "\"" $1 "\""}' | paste -sd,)
post() { curl -sS -X POST -H 'Content-Type: application/json' --data-binary @- "$scheduler_url/$1"; }

for name in small half whole mismatched; do
  pod=deploy/examples/pods/$name.json
  echo
  echo "──── Pod $name, as kube-scheduler asks for it: filter, prioritize, bind ────"
  printf '{"Pod":%s,"Nodes":null,"NodeNames":[%s]}' "$(cat "$pod")" "$names" >"$work/$name.filter.json"
  post filter <"$work/$name.filter.json" >"$work/$name.answer.json"
  fitting=$(sed -nE 's/.*"NodeNames":\[([^]]*)\].*/\1/p' "$work/$name.answer.json")
  if [ -n "$fitting" ]; then
    printf '{"Pod":%s,"Nodes":null,"NodeNames":[%s]}' "$(cat "$pod")" "$fitting" | post prioritize >"$work/$name.scores.json"
    best=$(grep -oE '"Host":"[^"]+","Score":[0-9]+' "$work/$name.scores.json" | sort -t: -k3,3nr -s | head -1 | cut -d'"' -f4)
    echo "filter: $(grep -o '","\|^"' <<<"$fitting" | wc -l) nodes offered; prioritize: best is $best"
    "$numafit" explain -f "$pod" --server "$read_url" || true
    uid=$(sed -nE 's/.*"uid": "([^"]+)".*/\1/p' "$pod")
    printf '{"PodName":"%s","PodNamespace":"default","PodUID":"%s","Node":"%s"}' "$name" "$uid" "$best" |
      post bind >"$work/$name.bind.json"
    echo "bind to $best: $(cat "$work/$name.bind.json")"
  else
    echo "filter: no node; the scheduler's event will read:"
    grep -oE 'numafit: [^"]+' "$work/$name.answer.json" | sort | uniq -c | sort -rn | sed 's/^ */  /; s/ numafit/ nodes  numafit/'
    "$numafit" explain -f "$pod" --server "$read_url" || true
  fi
done

cat <<TEXT

Requests and answers are in $work/. To go on:
  hack/lab.sh up                      a real kube-scheduler and real kubelets on made-up NUMA machines (needs Go)
  $numafit explain -f $pod
  $numafit nodes --fleet test/fleets/mixed.yaml
  docs/install.md                     numafit beside your own kube-scheduler
TEXT
