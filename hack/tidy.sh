#!/usr/bin/env bash
# clang-tidy-16 over our sources.
#   hack/tidy.sh [--deep] [FILE...]   default: every source of the product
# --deep adds the static analyzer and the rest of bugprone and performance: minutes more.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

# Only the generated headers are needed; hack/fuzz.sh is the build with clang.
build tidy numafit_kube_proto

checks=()
if [ "${1:-}" = --deep ]; then
  checks=(--checks=clang-analyzer-core.*,clang-analyzer-cplusplus.*,bugprone-*,-bugprone-easily-swappable-parameters,-bugprone-unchecked-optional-access,performance-*,-performance-enum-size)
  shift
fi
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
  mapfile -t files < <(git ls-files -- 'api/*.cc' 'policy/*.cc' 'kube/*.cc' 'cache/*.cc' 'cli/*.cc' 'extender/*.cc')
fi
printf '%s\0' "${files[@]}" |
  xargs -0 -n 4 -P "$NUMAFIT_JOBS" clang-tidy-16 -p build/tidy --quiet "${checks[@]}" 2>/dev/null
echo "tidy: ${#files[@]} files ok"
