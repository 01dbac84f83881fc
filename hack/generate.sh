#!/usr/bin/env bash
# Writes what is generated and kept in the repository again. A unit test fails when it is forgotten.
#   deploy/manifests/crd-nodereports.yaml   from api/node_report.proto and api/node_report_bounds.cc
#   docs/node-report-fields.md              from api/node_report.proto
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"
build dev numafit_generate
generate() {  # WHAT FILE
  local text
  text=$(build/dev/numafit_generate "$1" build/dev/generated/api/node_report.desc)
  printf '%s\n' "$text" >"$2"
}
generate crd deploy/manifests/crd-nodereports.yaml
generate fields docs/node-report-fields.md
