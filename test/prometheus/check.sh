#!/usr/bin/env bash
# deploy/prometheus and docs/runbooks: the rules are valid and tested, every alert has a page and every
# page an alert, and what rules and dashboard select is what the extender serves.
# Also shows that it would find what it looks for, by checking a copy with mistakes.
set -euo pipefail
root=$(cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}" && pwd)

# Metrics that they may use before the code has them, and why. Take a line out when its metric has
# come: the check fails for a line that is not needed.
declare -A expected_metrics=()

# Names of metrics in the text on standard input, without what a histogram adds to them.
metrics_in() { grep -oE '\bnumafit_[a-z_]+' | sed -E 's/_(bucket|sum|count)$//' | sort -u; }

# Alerts as "name summary description severity runbook", a 0 where something is missing.
alerts() {
  awk '
    function flush() { if (name != "") print name, has["summary"]+0, has["description"]+0, has["severity"]+0, (runbook == "" ? 0 : runbook) }
    /^  - (alert|record): / { flush(); name = ""; delete has; runbook = "" }
    /^  - alert: / { name = $3 }
    /^ +labels: \{severity: (critical|warning|info)\}$/ { has["severity"] = 1 }
    /^ +summary: ./ { has["summary"] = 1 }
    /^ +description: ./ { has["description"] = 1 }
    /^ +runbook_url: / { runbook = $2 }
    END { flush() }' "$1"
}

# problems RULES TESTS RUNBOOKS: one line each.
problems() {
  local rules=$1 tests=$2 runbooks=$3 sources file name summary description severity runbook metric value record
  mapfile -t sources < <(find "$root/extender" "$root/workloads" -name '*.cc' 2>/dev/null)

  while read -r name summary description severity runbook; do
    [ "$summary$description$severity" = 111 ] || echo "$name: needs a summary, a description and a severity (critical, warning or info)"
    [ "$runbook" = "docs/runbooks/$name.md" ] || echo "$name: runbook_url is $runbook, not docs/runbooks/$name.md"
    [ -e "$runbooks/$name.md" ] || echo "$name: no page docs/runbooks/$name.md"
    grep -q "^# $name\$" "$runbooks/$name.md" 2>/dev/null || echo "$name: its page has another heading"
    grep -qF "($name.md)" "$runbooks/README.md" || echo "$name: docs/runbooks/README.md does not list it"
    grep -q "^  - alertname: $name\$" "$tests" || echo "$name: no test in which it fires"
    grep -q "alertname: $name, .*exp_alerts: \[\]" "$tests" || echo "$name: no test in which it is quiet"
  done < <(alerts "$rules")

  for file in "$runbooks"/*.md; do
    name=$(basename "$file" .md)
    [ "$name" = README ] || grep -q "^  - alert: $name\$" "$rules" || echo "docs/runbooks/$name.md: no such alert"
  done

  # Names that recording rules give begin with job: and are not metrics.
  for metric in $(sed -E 's/#.*//; s/job:[a-z_0-9:]+//g' "$rules" "$dashboard" | metrics_in); do
    if grep -qF "\"$metric\"" "${sources[@]}"; then
      [ -z "${expected_metrics[$metric]+known}" ] || echo "$metric is served: take it out of expected_metrics in test/prometheus/check.sh"
    else
      [ -n "${expected_metrics[$metric]+known}" ] || echo "$metric: the extender has no such metric"
    fi
  done
  for record in $(grep -ohE 'job:[a-z_0-9:]+' "$rules" "$dashboard" | sort -u); do
    grep -q "^  - record: $record\$" "$rules" || echo "$record: no such recording rule"
  done
  # Also the causes that the page about them lists.
  for value in $(
    grep -oE '(result|reason|state|listener)=~?"[^"]+"' "$rules" | sed -E 's/.*"(.*)"/\1/' | tr '|' '\n'
    sed -nE 's/^\| `([a-z-]+)` \|.*/\1/p' "$runbooks/NumafitWorkloadUnplaceable.md"
  ); do
    grep -qF "\"$value\"" "${sources[@]}" || echo "label value $value: the extender has no such value"
  done
}

rules=$root/deploy/prometheus/rules.yaml
tests=$root/test/prometheus/rules_test.yaml
runbooks=$root/docs/runbooks
dashboard=$root/deploy/prometheus/dashboard.json

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# One copy with a mistake of each kind.
sed -E '
  s/numafit_fleet_stale_nodes/numafit_fleet_stail_nodes/
  s/result="mismatch"/result="mismach"/
  s/expr: job:numafit_bind_duration/expr: job:numafit_binds_duration/
  s/alert: NumafitNodesUnreported$/alert: NumafitNodesUnknown/
  s/(runbook_url: .*)BindSlow/\1BindsSlow/
  s/severity: critical/severity: dire/' "$rules" >"$scratch/rules.yaml"
grep -v 'alertname: NumafitFilterSlow' "$tests" >"$scratch/tests.yaml"
problems "$scratch/rules.yaml" "$scratch/tests.yaml" "$runbooks" >"$scratch/made-up"
for text in \
  'numafit_fleet_stail_nodes: the extender has no such metric' \
  'label value mismach: the extender has no such value' \
  'job:numafit_binds_duration_seconds:p99_rate5m: no such recording rule' \
  'NumafitNodesUnreported.md: no such alert' \
  'NumafitNodesUnknown: no page' \
  'NumafitNodesUnknown: docs/runbooks/README.md does not list it' \
  'NumafitBindSlow: runbook_url is' \
  'NumafitExtenderDown: needs a summary' \
  'NumafitFilterSlow: no test in which it fires' \
  'NumafitFilterSlow: no test in which it is quiet'; do
  grep -qF -e "$text" "$scratch/made-up" || { echo "alerts: the check does not find: $text"; exit 1; }
done

found=$(problems "$rules" "$tests" "$runbooks")
[ -z "$found" ] || { echo "$found" | sed 's/^/alerts: /'; exit 1; }

promtool check rules "$rules" >"$scratch/out" 2>&1 || { cat "$scratch/out"; exit 1; }
promtool check config "$root/deploy/prometheus/scrape.yaml" >"$scratch/out" 2>&1 || { cat "$scratch/out"; exit 1; }
promtool test rules "$tests" >"$scratch/out" 2>&1 || { cat "$scratch/out"; exit 1; }
echo "alerts: ok ($(alerts "$rules" | wc -l) alerts)"
