#!/usr/bin/env bash
# How much of the mirror the oracle's cases reach: lines of policy/ that run while numafit answers them.
#
#   hack/coverage.sh                    20,000 random cases of each Kubernetes version, fixtures and recordings
#   hack/coverage.sh --cases N --seed S
#
# Prints a line for each file, what was not reached, and the total. Files that have no counterpart in
# the kubelet, or none that a case can reach, are listed apart with the reason (`apart` below) and do
# not count. Cases are answered by the mirror alone; that the answers are right is hack/oracle.sh's to say.
# Needs gcov, which comes with g++. Builds into build/coverage.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

cases=20000 seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
while [ $# -gt 0 ]; do
  case "$1" in
    --cases) cases=$2; shift ;;
    --seed) seed=$2; shift ;;
    -h|--help) sed -n '2,/^set/p' "$0" | sed '$d; s/^# \?//'; exit 0 ;;
    *) echo "coverage.sh: unknown argument '$1'; see --help" >&2; exit 2 ;;
  esac
  shift
done

# FILE PATTERN|why it does not count.
apart='policy/(alignment|landing|needs|unit_room|reason)[.]|numafit'"'"'s own questions about an answer
policy/score/|numafit'"'"'s own: scores
policy/predicates[.]|after topology admission, which cases end with; compared with the kubelet apart
policy/mutation[.]|tests only'

# Functions in the files that count which no admission of a kubelet is: what the extender and
# explanations enter by, and input that a case does not hold (what the node keeps from Pods is taken
# to be what reservedMemory says). Beginnings of their definitions.
apart_functions='void Apply(
void ForEachOutcome(
void ReleaseCpus(
absl::Status CheckSums(
void MemoryManager::Restore(
std::string Demand::Fingerprint(
bool Demand::AsksForNoDevice(
std::span<const int> Topology::ClassEndpoints(
void Usage::Release(
void Remove(const DeviceHolding
[[nodiscard]] const CpuTopology& topology() const
[[nodiscard]] const CpuSet& reserved() const
[[nodiscard]] int taken(int class_index) const'

need_go
judge=$(oracle none)
build coverage numafit-admit
mirror=build/coverage/numafit-admit
find build/coverage -name '*.gcda' -delete

"$judge" fixtures --mirror "$mirror" --managers all --fixtures test/oracle/fixtures
for recording in test/oracle/recorded/*.jsonl.gz; do
  "$judge" replay "$recording" --mirror "$mirror"
done
# Half of them about devices alone: their states multiply most. A tenth more of the other kinds.
for minor in 1.34 1.35 1.36 1.37; do
  for kind in all:2 devices:2 resize:10 pod-level:10; do
    case $minor-$kind in 1.3[45]-pod-level:*) continue ;; esac
    "$judge" gen --kubernetes $minor --managers "${kind%:*}" --cases $((cases / ${kind#*:})) --seed "$seed"
  done | "$mirror" >/dev/null
done

# gcov sums over all objects that it is given, so a header's line counts once. It writes a line for
# each instance of a template too: the largest count is the sum.
work=$ROOT/build/coverage/gcov
rm -rf "$work" && mkdir "$work"
find "$ROOT"/build/coverage/{policy,cli/admit} -name '*.gcno' | LC_ALL=C sort |
  (cd "$work" && xargs gcov --relative-only --source-prefix "$ROOT" --preserve-paths >/dev/null 2>&1)
awk -v apart="$apart" -v functions="$apart_functions" '
  BEGIN {
    rules = split(apart, rule, "\n")
    for (i = 1; i <= rules; ++i) {
      cut = match(rule[i], /[|][^|]*$/)  # a pattern may hold more of these
      pattern[i] = substr(rule[i], 1, cut - 1)
      why[i] = substr(rule[i], cut + 1)
    }
  }
  BEGIN { entries = split(functions, entry, "\n") }
  FNR == 1 { file = ""; end = "" }
  {
    colon = index($0, ":")
    count = substr($0, 1, colon - 1); gsub(/[ *]/, "", count)
    rest = substr($0, colon + 1)
    colon = index(rest, ":")
    if (colon == 0) next
    line = substr(rest, 1, colon - 1) + 0
    text = substr(rest, colon + 1)
    if (line == 0) { if (text ~ /^Source:/) file = substr(text, 8); next }
    for (i = 1; i <= entries && end == ""; ++i) {
      at = index(text, entry[i])
      # Only spaces before it: the definition.
      if (at == 0 || substr(text, 1, at - 1) !~ /^ *$/) continue
      end = substr(text, 1, at - 1) "}"
      began = line
    }
    if (end != "") {
      if (count != "-" && count != "=====") entered[file SUBSEP line] = 1
      if (substr(text, 1, length(end)) == end || (began == line && text ~ /[}]$/)) end = ""
      next
    }
    # "=====": reached by exceptions alone, and policy/ has none.
    if (file !~ /^policy\// || count == "-" || count == "=====") next
    hit = count != "#####"
    key = file SUBSEP line
    if (!(key in seen)) {
      seen[key] = 0
      source[key] = text
      lines[file]++
      if (line > last[file]) last[file] = line
    }
    if (hit && !seen[key]) { seen[key] = 1; reached[file]++ }
  }
  END {
    for (file in lines) {
      reason = ""
      for (i = 1; i <= rules; ++i) if (file ~ pattern[i]) reason = why[i]
      if (reason != "") { printf "3 %s: %d of %d, apart: %s\n", file, reached[file], lines[file], reason; continue }
      all += lines[file]; done += reached[file]
      printf "2 %s: %d of %d\n", file, reached[file], lines[file]
      for (line = 1; line <= last[file]; ++line) {
        key = file SUBSEP line
        if (key in seen && !seen[key]) printf "1 %s:%d:%s\n", file, line, source[key]
      }
    }
    for (key in entered) ++lines_entered
    printf "4 entry points of the extender and of explanations, in files that count: %d lines apart\n", lines_entered
    printf "5 lines of policy/ that mirror the kubelet and are reached by cases: %d of %d, %.1f %%\n", done, all, 100 * done / all
  }' "$work"/*.gcov | LC_ALL=C sort -t: -k1,1 -k2,2n | sed 's/^[1-5] //'
