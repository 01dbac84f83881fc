#!/usr/bin/env bash
# Writes what is generated and kept in the repository again. A unit test fails when it is forgotten.
#   deploy/manifests/crd-nodereports.yaml   from api/node_report.proto and api/node_report_bounds.cc
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"
build dev numafit_generate_crd
mkdir -p deploy/manifests
crd=$(build/dev/numafit_generate_crd build/dev/generated/api/node_report.desc)
printf '%s\n' "$crd" >deploy/manifests/crd-nodereports.yaml
