#!/usr/bin/env bash
# clang-tidy-16 over our sources (.clang-tidy says which checks).
#   hack/tidy.sh [--deep] [--changed | FILE...]   default: every source of the product
# --changed takes the sources that differ from origin/main, committed or not.
# --deep adds the static analyzer and the rest of bugprone and performance: minutes more.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"
ours=('api/*.cc' 'policy/*.cc' 'kube/*.cc' 'cache/*.cc' 'cli/*.cc' 'extender/*.cc')

checks=()
if [ "${1:-}" = --deep ]; then
  checks=(--checks=clang-analyzer-core.*,clang-analyzer-cplusplus.*,bugprone-*,-bugprone-easily-swappable-parameters,-bugprone-unchecked-optional-access,performance-*,-performance-enum-size)
  shift
fi
if [ "${1:-}" = --changed ]; then
  mapfile -t files < <(git diff --name-only --diff-filter=d "$(git merge-base origin/main HEAD)" -- "${ours[@]}")
elif [ $# -gt 0 ]; then
  files=("$@")
else
  mapfile -t files < <(git ls-files -- "${ours[@]}")
fi
[ ${#files[@]} -gt 0 ] || { echo "tidy: no source has changed"; exit 0; }

# Of what is generated only the headers are needed; nothing is compiled.
build tidy generated/kube/core_v1.pb.h generated/api/node_report.pb.h >/dev/null
# Standard error only counts what was suppressed.
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "$NUMAFIT_JOBS" clang-tidy-16 -p build/tidy --quiet "${checks[@]}" 2>build/tidy/tidy.err ||
  { { grep -v 'warnings\? generated\|treated as error' build/tidy/tidy.err || true; }; echo "tidy: FAILED"; exit 1; }
echo "tidy: ${#files[@]} files ok"
