#!/usr/bin/env bash
# A real cluster on this machine, without containers: real control plane, real kubelets on made-up NUMA
# machines, real device plugins. Everything stays on loopback, in namespaces of its own; works as root
# and as a plain user. See docs/lab.md.
#   hack/lab.sh up        start it (the first time builds Kubernetes: about ten minutes)
#   hack/lab.sh status    what is free where, and which Pod lies where
#   hack/lab.sh kubectl get nodes
#   hack/lab.sh down      end it; nothing is left behind
#   hack/lab.sh demo      the same Pods without and with numafit
#   hack/lab.sh help      every command
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
export NUMAFIT_ROOT=$ROOT
lab=$ROOT/build/lab/bin/numafit-lab

build_programs() {  # [kueue]
  need_go
  "$ROOT/test/lab/build.sh" "$@"
  (cd "$ROOT/test/lab" && go build -o "$lab" ./cmd/numafit-lab)
}

build_numafit() {
  [[ -n ${NUMAFIT_EXTENDER:-} && -n ${NUMAFIT:-} && -n ${NUMAFIT_AGENT:-} ]] && return 0
  build release numafit numafit-extender numafit-agent >&2
}

command=${1:-help}
case "$command" in
  build)
    build_programs
    ;;
  up|demo|bench|bench-agent)
    build_programs
    build_numafit
    exec "$lab" "$@"
    ;;
  test)
    shift
    # Four minutes that only those tests need which have Kueue in their names.
    if [[ " $* " != *" -run"* || $* == *Kueue* ]]; then
      build_programs kueue
    else
      build_programs
    fi
    build_numafit
    [[ -n ${NUMAFIT_KUBE_PROBE:-} ]] || build release kube_probe >&2
    cd "$ROOT/test/lab"
    # One package at a time: each test starts a whole cluster.
    exec go test -count=1 -p 1 -timeout 40m "$@" ./...
    ;;
  *)
    [[ -x $lab ]] || build_programs
    exec "$lab" "$@"
    ;;
esac
