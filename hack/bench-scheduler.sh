#!/usr/bin/env bash
# Pods per second of the real kube-scheduler with numafit against without, on made-up nodes, and the share
# of binds that the gate refuses in a burst. Options: --nodes 1000,5000 --pods N --rounds N --gate-nodes N
# --gate-pods N --json
exec "$(dirname "${BASH_SOURCE[0]}")/lab.sh" bench "$@"
