#!/usr/bin/env bash
# clang-tidy-16 and clang's thread-safety analysis over our sources.
#   hack/tidy.sh [FILE...]   default: every source of the product (tests are compiled, not tidied)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

# Building with clang runs -Wthread-safety as an error and makes the generated headers.
build tidy numafit numafit-extender

files=("$@")
if [ ${#files[@]} -eq 0 ]; then
  mapfile -t files < <(git ls-files -- 'api/*.cc' 'policy/*.cc' 'kube/*.cc' 'cache/*.cc' 'cli/*.cc' 'extender/*.cc')
fi
printf '%s\0' "${files[@]}" |
  xargs -0 -n 4 -P "$NUMAFIT_JOBS" clang-tidy-16 -p build/tidy --quiet 2>/dev/null
echo "tidy: ${#files[@]} files ok"
