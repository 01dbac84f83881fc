#!/usr/bin/env bash
# Installs what is missing, builds, and passes every test; ends with how long each part took.
#   hack/test.sh          everything (what CI runs)
#   hack/test.sh --quick  C++ unit tests only: seconds after a warm build
#   hack/test.sh PART...  only these parts, in this order (see the list at the end)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

report=()
run_part() {
  local name=$1 begin end status=0
  echo
  echo "=== $name"
  begin=$(date +%s)
  # A subshell with its own errexit: a condition around the call would switch errexit off.
  set +e
  (set -e; "part_${name//-/_}")
  status=$?
  set -e
  end=$(date +%s)
  report+=("$(printf '%-14s %4d s  %s' "$name" $((end - begin)) "$([ $status -eq 0 ] && echo ok || echo FAILED)")")
  [ $status -eq 0 ] || { print_report; exit 1; }
}
print_report() {
  echo
  echo "part            time"
  printf '%s\n' "${report[@]}"
}

part_install() { hack/install.sh; }

# Formatting of our C++ and gofmt of our Go.
part_format() {
  git ls-files -z -- '*.cc' '*.h' | xargs -0 clang-format-16 --dry-run -Werror
  if command -v gofmt >/dev/null; then
    local unformatted
    unformatted=$(git ls-files -- '*.go' | xargs -r gofmt -l)
    [ -z "$unformatted" ] || { echo "gofmt: $unformatted"; return 1; }
  fi
}

# deploy/prometheus and docs/runbooks: rules, their tests, a page for each alert.
part_alerts() { test/prometheus/check.sh; }

# Daily work; CI runs the same tests under AddressSanitizer instead.
part_unit() {
  build dev
  ctest --test-dir build/dev -j "$NUMAFIT_JOBS" --output-on-failure
}

# run_tests PROGRAM...: several at once, each as a whole: a process for every single test, as ctest has
# them, takes longer than the tests.
run_tests() {
  printf '%s\0' "$@" | xargs -0 -P "$NUMAFIT_JOBS" -I{} \
    sh -c 'timeout 900 {} --gtest_brief=1 || { echo {} FAILED; exit 1; }'
}

# How sanitizers find out what a function is called.
symbolizer=external_symbolizer_path=$(command -v llvm-symbolizer-16 || true)

# Everything in C++, with AddressSanitizer and UndefinedBehaviorSanitizer; clang checks the
# annotations of locks meanwhile.
part_asan() {
  build asan
  export ASAN_OPTIONS=$symbolizer UBSAN_OPTIONS=$symbolizer:print_stacktrace=1
  # The longest first.
  run_tests $(ls -S build/asan/*_test)
  test/layering/check.sh .
}

# What has threads. The one suppression is explained in its file.
part_tsan() {
  local tests=(cache_fleet_test kube_test extender_test extender_http_test)
  build tsan "${tests[@]}"
  export TSAN_OPTIONS="suppressions=$ROOT/test/tsan.supp:$symbolizer"
  run_tests "${tests[@]/#/build/tsan/}"
}

# Every reader of bytes from outside; built with asan. fuzz_case replays what people type and takes
# longer than this to say anything: hack/fuzz.sh.
part_fuzz() { hack/fuzz.sh 15 $(cd test/fuzz && printf '%s\n' fuzz_*.cc | sed 's/\.cc$//' | grep -vx fuzz_case); }

part_tidy() { hack/tidy.sh; }

part_release() { build release numafit numafit-extender; }

# The main job, as a newcomer runs it.
part_run() { hack/run.sh; }

part_oracle() {
  need_go
  build release numafit
  # A build in which single rules can be switched wrong.
  build asan numafit
  NUMAFIT_MUTANT=build/asan/numafit hack/oracle.sh --ci
}

part_lab() {
  need_go
  hack/lab.sh test
}

# Both at once: the oracle needs processors, the lab mostly waits. The oracle yields to it, so that the
# lab's clusters start as they do alone; what it says is shown when the lab is done.
part_oracle_and_lab() {
  local log=build/oracle.log status=0 oracle
  build release numafit numafit-extender numafit-agent kube_probe
  (begin=$(date +%s)
   nice -n 19 hack/test.sh oracle >"$log" 2>&1 || exit 1
   echo "oracle: $(($(date +%s) - begin)) s") &
  oracle=$!
  part_lab || status=1
  wait "$oracle" || status=1
  cat "$log"
  return $status
}

# The real Kubernetes needs a quarter of an hour of compiling when it was never built here. The last
# part wants it; until then it takes what the other parts leave of the processors, and its downloads
# cost no time. What fails here fails again, and is shown, in the part that needs it.
go_builds=
start_go_builds() {
  need_go
  # A process group of its own, so that it can be ended as a whole.
  set -m
  nice -n 19 bash -c 'source hack/common.sh
    oracle none; oracle 1.36; test/lab/build.sh kueue; oracle 1.35' >build/go-builds.log 2>&1 </dev/null &
  go_builds=$!
  set +m
  trap 'kill -- -"$go_builds" 2>/dev/null || true' EXIT
}

all_parts=(install format alerts release run asan tsan fuzz oracle-and-lab)
case "${1:-}" in
  --quick)
    hack/install.sh
    build dev
    exec ctest --test-dir build/dev -j "$NUMAFIT_JOBS" -L unit --output-on-failure
    ;;
  -h|--help) sed -n '2,5p' "$0" | sed 's/^# \?//'; echo "parts: ${all_parts[*]} oracle lab unit tidy"; exit 0 ;;
  "") parts=("${all_parts[@]}") ;;
  *) parts=("$@") ;;
esac
for part in "${parts[@]}"; do
  declare -F "part_${part//-/_}" >/dev/null || { echo "test.sh: no part '$part'; parts: ${all_parts[*]} oracle lab unit tidy" >&2; exit 2; }
  run_part "$part"
  # Not before the packages are there, and only in a run that comes to it much later.
  [ "$part" != install ] || [ "${parts[*]}" != "${all_parts[*]}" ] || start_go_builds
done
print_report
