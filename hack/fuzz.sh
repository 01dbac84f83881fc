#!/usr/bin/env bash
# Runs every libFuzzer target for a while from its committed corpus.
#   hack/fuzz.sh [SECONDS-PER-TARGET [TARGET...]]   default: 60 seconds, all of test/fuzz
# What a target finds is left in build/fuzz/findings; its corpus grows in build/fuzz/corpus.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"
seconds=${1:-60}
shift || true
targets=("$@")

if [ ${#targets[@]} -gt 0 ]; then
  build asan "${targets[@]}"
else
  build asan fuzzers
  mapfile -t targets < <(cd test/fuzz && printf '%s\n' fuzz_*.cc | sed 's/\.cc$//')
fi

# Seeds that other parts of the repository keep are taken from there, so that they never differ.
seeds=build/fuzz/seeds
rm -rf "$seeds"
mkdir -p "$seeds"/fuzz_{case,extender_json,filter_args,pod_json} build/fuzz/findings
for file in test/oracle/fixtures/*.json; do
  sed -n 's/^ *"case": \(.*\),$/\1/p' "$file" >"$seeds/fuzz_case/$(basename "$file")"
done
cp deploy/examples/pods/*.json "$seeds/fuzz_pod_json/"
cp test/extender/data/*.json "$seeds/fuzz_extender_json/"
cp test/extender/data/*-{filter,prioritize}-*.json "$seeds/fuzz_filter_args/"
[ -z "$(find "$seeds" -empty)" ] || { echo "fuzz: a seed is empty: $(find "$seeds" -empty)" >&2; exit 1; }

run_one() {
  local name=$1 seconds=$2 corpora=() options=()
  for corpus in "build/fuzz/corpus/$name" "test/fuzz/corpus/$name" "build/fuzz/seeds/$name"; do
    [ ! -d "$corpus" ] || corpora+=("$corpus")
  done
  [ ! -f "test/fuzz/$name.dict" ] || options+=(-dict="test/fuzz/$name.dict")
  "build/asan/$name" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=30 \
    -artifact_prefix="build/fuzz/findings/$name-" "${options[@]}" "${corpora[@]}" \
    >"build/fuzz/$name.log" 2>&1 ||
    { tail -40 "build/fuzz/$name.log"; echo "fuzz: $name FAILED"; return 1; }
  echo "fuzz: $name ok, $(grep -oE '^Done [0-9]+ runs' "build/fuzz/$name.log" || echo 'no run count')"
}
export -f run_one
for name in "${targets[@]}"; do mkdir -p "build/fuzz/corpus/$name"; done
printf '%s\0' "${targets[@]}" | xargs -0 -I{} -P "$NUMAFIT_JOBS" bash -c 'run_one "$1" '"$seconds" _ {}
