#!/usr/bin/env bash
# Runs every libFuzzer target for a while from its committed corpus.
#   hack/fuzz.sh [SECONDS-PER-TARGET]   default 60
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"
seconds=${1:-60}

build fuzz fuzzers
shopt -s nullglob
targets=(build/fuzz/fuzz_*)
[ ${#targets[@]} -gt 0 ] || { echo "fuzz: no targets were built" >&2; exit 1; }
mkdir -p build/fuzz/corpus
run_one() {
  local target=$1 seconds=$2 name
  name=$(basename "$target")
  mkdir -p "build/fuzz/corpus/$name" "build/fuzz/findings"
  local seeds="test/fuzz/corpus/$name"
  "$target" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -print_final_stats=0 \
    -artifact_prefix="build/fuzz/findings/$name-" \
    "build/fuzz/corpus/$name" $([ -d "$seeds" ] && echo "$seeds") >"build/fuzz/$name.log" 2>&1 ||
    { tail -40 "build/fuzz/$name.log"; echo "fuzz: $name FAILED"; return 1; }
  echo "fuzz: $name ok, $(grep -oE '^Done [0-9]+ runs' "build/fuzz/$name.log" || echo 'no run count')"
}
export -f run_one
printf '%s\0' "${targets[@]}" | xargs -0 -n 1 -P "$NUMAFIT_JOBS" bash -c 'run_one "$1" '"$seconds" _
