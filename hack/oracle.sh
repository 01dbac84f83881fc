#!/usr/bin/env bash
# Compares numafit's mirror of the kubelet with the kubelet's own managers, over random cases.
#
#   hack/oracle.sh                                1,000 cases of Kubernetes 1.36, a fresh seed
#   hack/oracle.sh --kubernetes 1.34 --cases 200000 --seed 7 [--from K] [--jobs J]
#   hack/oracle.sh --kubernetes 1.35 --run        answers of the real managers to cases on standard input
#   hack/oracle.sh --replay FILE                  against recorded answers, without any Kubernetes code
#   hack/oracle.sh --record 2500 --kubernetes 1.37 > FILE
#   hack/oracle.sh --kubernetes 1.35 --fixture NOTE [--name NAME] < case.jsonl   keeps a case and the real answer as a fixture
#   hack/oracle.sh --known-answers                tests of the oracle itself, with 1.36 or --kubernetes MINOR
#   hack/oracle.sh --ci [--cases N]               what CI runs: 1.36 (300,000 or N) and 1.35 (a sixth) live, a quarter
#                                                 of both about all managers, the others, which take a third of
#                                                 the time, about devices alone; 12,000 pod-level of 1.36 (a
#                                                 twenty-fifth of N); with resizes 6,000 of 1.36 (a fiftieth of
#                                                 N) and 3,000 of 1.35; fixtures, recordings, mutations
#
# --managers devices|all|pod-level|resize: cases about devices alone; about all managers (default), a third of them about devices
# alone; with the gate PodLevelResourceManagers on and Pods that have resources of their own (from 1.36); in which Pods
# are resized in place. Fixtures about more than devices are checked with all.
# A disagreement is shrunk, printed, stored under test/oracle/fixtures/, and the exit code is 1.
# NUMAFIT: the numafit to judge (default: build/release/numafit, built when it is not up to date).
# NUMAFIT_MUTANT: a build with mutations, for --ci (default: build/dev/numafit).
# The form of cases and answers: docs/case-format.md.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

minor=1.36 cases= seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ') from=0 jobs=$NUMAFIT_JOBS action=compare file= managers=all name=
while [ $# -gt 0 ]; do
  case "$1" in
    --kubernetes) minor=$2; shift ;;
    --cases) cases=$2; shift ;;
    --seed) seed=$2; shift ;;
    --from) from=$2; shift ;;
    --jobs) jobs=$2; shift ;;
    --managers) managers=$2; shift ;;
    --name) name=$2; shift ;;
    --replay) action=replay file=$2; shift ;;
    --record) action=record cases=$2; shift ;;
    --run) action=run ;;
    --fixture) action=fixture note=$2; shift ;;
    --known-answers) action=known ;;
    --ci) action=ci ;;
    -h|--help) sed -n '2,/^set/p' "$0" | sed '$d; s/^# \?//'; exit 0 ;;
    *) echo "oracle.sh: unknown argument '$1'; see --help" >&2; exit 2 ;;
  esac
  shift
done

mirror() {
  local numafit=${NUMAFIT:-$ROOT/build/release/numafit}
  [ -n "${NUMAFIT:-}" ] || build release numafit >&2
  [ -x "$numafit" ] || { echo "oracle.sh: no numafit at $numafit" >&2; return 1; }
  echo "$numafit admit"
}

compare() { # MINOR CASES SEED [FLAGS...]
  local minor=$1 cases=$2 seed=$3
  shift 3
  "$(oracle "$minor")" compare --mirror "$judged" --managers "$managers" --cases "$cases" --seed "$seed" --jobs "$jobs" \
    --fixtures test/oracle/fixtures "$@"
}

# Every rule that a build with mutations can make wrong must be noticed within 1,000 random cases or,
# where it takes a rare one, by the fixtures.
mutations() {
  local mutant=${NUMAFIT_MUTANT:-$ROOT/build/dev/numafit} judge name kind missed=0
  [ -n "${NUMAFIT_MUTANT:-}" ] || build dev numafit >&2
  judge=$(oracle 1.36)
  for name in $(sed -n 's/.*MutationName{Mutation::k[A-Za-z0-9]*, "\([a-z0-9-]*\)"}.*/\1/p' policy/mutation.cc); do
    printf 'mutation %s: ' "$name"
    kind=$managers
    case $name in whole-pod-*) kind=pod-level ;; resize-*) kind=resize ;; esac
    NUMAFIT_MUTATION=$name "$judge" compare --mirror "$mutant admit" --managers "$kind" --cases 1000 --seed "$1" \
      --jobs "$jobs" --most 1 --expect-disagreement ||
      { printf 'fixtures: '
        NUMAFIT_MUTATION=$name "$judge" fixtures --mirror "$mutant admit" --managers "$managers" \
          --fixtures test/oracle/fixtures --expect-disagreement | tail -1; } || missed=1
  done
  return $missed
}

# The oracle's own tests: what the real managers are known to do.
known() { # MINOR
  (cd test/oracle && go test -modfile="mod/k${1/./}.mod" -tags "k${1/./}" ./...)
}

ci() {
  local status=0 k n=${cases:-300000}
  for k in 1.36 1.35; do
    "$(oracle $k)" fixtures --mirror "$judged" --managers "$managers" --fixtures test/oracle/fixtures || status=1
  done
  for k in k134 k137; do
    "$(oracle none)" replay "test/oracle/recorded/$k.jsonl.gz" --mirror "$judged" || status=1
  done
  mutations "$seed" || status=1
  compare 1.36 "$((n / 4))" "$seed" || status=1
  managers=devices compare 1.36 "$((n - n / 4))" "$((seed + 1))" || status=1
  managers=pod-level compare 1.36 "$((n / 25))" "$((seed + 2))" || status=1
  compare 1.35 "$((n / 24))" "$((seed + 3))" || status=1
  managers=devices compare 1.35 "$((n / 6 - n / 24))" "$((seed + 4))" || status=1
  managers=resize compare 1.36 "$((n / 50))" "$((seed + 5))" || status=1
  managers=resize compare 1.35 "$((n / 100))" "$((seed + 6))" || status=1
  return $status
}

need_go
case $action in
  compare) judged=$(mirror); compare "$minor" "${cases:-1000}" "$seed" --from "$from" ;;
  fixture) "$(oracle "$minor")" fixture --fixtures test/oracle/fixtures --name "$name" "$note" ;;
  run) exec "$(oracle "$minor")" run ;;
  record) exec "$(oracle "$minor")" record --managers "$managers" --cases "$cases" --seed "$seed" --from "$from" ;;
  replay) exec "$(oracle none)" replay "$file" --mirror "$(mirror)" ;;
  known) known "$minor" ;;
  ci) judged=$(mirror); known 1.36; ci ;;
esac
