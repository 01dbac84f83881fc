#!/usr/bin/env bash
# Clang's check of locks (-Wthread-safety) and its other warnings, over every source of the product
# that sees a lock. Nothing is compiled further than that.
#   hack/locks.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

# Includes name their file from the root, so who sees the lock can be read from them.
sees=(-e '"api/mutex.h"')
headers=0
while :; do
  mapfile -t found < <(git grep -lF "${sees[@]}" -- 'api/*.h' 'policy/*.h' 'kube/*.h' 'cache/*.h' 'extender/*.h' 'cli/*.h')
  [ "${#found[@]}" -gt "$headers" ] || break
  headers=${#found[@]}
  sees=(-e '"api/mutex.h"')
  for header in "${found[@]}"; do sees+=(-e "\"$header\""); done
done
mapfile -t sources < <(git grep -lF "${sees[@]}" -- 'api/*.cc' 'policy/*.cc' 'kube/*.cc' 'cache/*.cc' 'extender/*.cc' 'cli/*.cc')
[ ${#sources[@]} -gt 0 ] || { echo "locks: no source sees api/mutex.h" >&2; exit 1; }

build tidy generated/kube/core_v1.pb.h generated/api/node_report.pb.h >/dev/null
ninja -C build/tidy -t commands >build/tidy/commands
check_one() {
  # The compiler's own line, without the launcher before it and the files that it would write.
  local command
  command=$(grep -E -- " -c $PWD/${1//./\\.}\$" build/tidy/commands | sed -E 's/^[^ ]*ccache //; s/ -(o|MF|MT) [^ ]+//g; s/ -MD / /') || true
  [ -n "$command" ] || { echo "locks: $1 is not built" >&2; return 1; }
  (cd build/tidy && eval "$command -fsyntax-only") || { echo "locks: $1 FAILED"; return 1; }
}
export -f check_one
printf '%s\0' "${sources[@]}" | xargs -0 -I{} -P "$NUMAFIT_JOBS" bash -c 'check_one "$1"' _ {}
echo "locks: ${#sources[@]} files ok"
