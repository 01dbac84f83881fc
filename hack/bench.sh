#!/usr/bin/env bash
# What numafit costs. Each subcommand but settling takes --json.
#   hack/bench.sh filter     /filter against the cost of reading and writing its JSON, same run
#   hack/bench.sh policy     one admission, in microseconds: by parts, and beside the kubelet's own code in the
#                            same cases (--limit 10s for each; the first build of the oracle takes minutes)
#   hack/bench.sh scheduler  Pods per second of the real kube-scheduler with numafit against without,
#                            and the share of binds that the gate refuses (starts a lab cluster)
#   hack/bench.sh scale      the extender's memory with 15,000 NodeReports, the changes of reports it keeps up
#                            with, and what filter calls notice of them
#   hack/bench.sh agent      numafit-agent on a real kubelet: memory, processor time while nothing changes, how soon a
#                            change is at the API server, and how soon a Pod that waits for it is bound (starts a
#                            lab cluster)
#   hack/bench.sh workloads  the extender's memory with 5,000 of Kueue's Workloads and 50,000 Pods, how soon one
#                            that cannot be placed is flagged, and what filter calls notice of them
#   hack/bench.sh settling   how often a node cannot be judged until its kubelet has shown more
# Further options go to the program: settling --rounds N; scale --nodes, --rate, --seconds; workloads --workloads,
# --pods, --rate, --updates, --seconds; filter --calls N --nodes 5000,15000; agent --idle, --rounds, --releases; scheduler --nodes, --pods, …
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() { sed -n '2,17s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

# program NAME: builds it the way people run it; says nothing on standard output.
program() {
  build release "$1" >"$ROOT/build/bench.log" 2>&1 || { tail -40 "$ROOT/build/bench.log" >&2; exit 1; }
}

command=${1:-help}
[ $# -gt 0 ] && shift
case "$command" in
  filter)
    program filter_bench
    exec "$ROOT/build/release/filter_bench" "$@"
    ;;
  policy)
    program policy_bench
    program admit_bench
    need_go
    judge=$ROOT/$(cd "$ROOT" && oracle 1.36)
    options=() times=()
    while [ $# -gt 0 ]; do
      case "$1" in
        --json) options+=(--benchmark_format=json) times+=(--json) ;;
        --limit) times+=(--limit "$2"); shift ;;
        *) options+=("$1") ;;
      esac
      shift
    done
    beside() {
      "$judge" bench-cases | "$judge" time --beside "$ROOT/build/release/admit_bench --rounds 20" "${times[@]}"
    }
    case " ${times[*]} " in
      *" --json "*)
        printf '{"parts":%s,\n"cases":%s}\n' "$("$ROOT/build/release/policy_bench" "${options[@]}")" "$(beside)" ;;
      *)
        beside
        echo
        "$ROOT/build/release/policy_bench" "${options[@]}" ;;
    esac
    ;;
  scale)
    program scale_bench
    program numafit-extender
    exec "$ROOT/build/release/scale_bench" --extender "$ROOT/build/release/numafit-extender" "$@"
    ;;
  workloads)
    program workloads_bench
    program numafit-extender
    exec "$ROOT/build/release/workloads_bench" --extender "$ROOT/build/release/numafit-extender" "$@"
    ;;
  settling)
    program settling_bench
    files=()
    for file in hgx-8-8 hgx-8-8-static dgx-h100 mi300x uneven-4-numa uneven-4-numa-static gb200-aks; do
      files+=("$ROOT/test/fleets/$file.yaml")
    done
    exec "$ROOT/build/release/settling_bench" "${files[@]}" "$@"
    ;;
  agent)
    exec "$ROOT/hack/lab.sh" bench-agent "$@"
    ;;
  scheduler)
    exec "$ROOT/hack/bench-scheduler.sh" "$@"
    ;;
  help|-h|--help)
    usage
    ;;
  *)
    echo "bench: unknown subcommand \"$command\"" >&2
    usage >&2
    exit 2
    ;;
esac
