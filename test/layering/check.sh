#!/usr/bin/env bash
# Includes only go down: each folder may look into the folders named here and nowhere else.
# Also shows that it would find a violation, by checking one that it makes up.
set -euo pipefail
root=${1:?usage: check.sh ROOT}

declare -A allowed=(
  [api]="api"
  [policy]="policy"
  [kube]="kube api"
  [cache]="cache policy kube api"
  [workloads]="workloads cache policy kube api"
  [agent]="agent policy kube api"
  [cli]="cli agent cache policy kube api"
  [extender]="extender cache policy kube api workloads"
)

# violations FOLDER-NAME DIRECTORY: prints every include of a project folder that is not allowed.
violations() {
  local folder=$1 directory=$2 line target
  while IFS= read -r line; do
    target=$(sed -E 's/.*#include "([^"/]+)\/.*/\1/' <<<"$line")
    [ -n "${allowed[$target]+known}" ] || continue
    case " ${allowed[$folder]} " in
      *" $target "*) ;;
      *) echo "$line" ;;
    esac
  done < <(grep -rnE '^ *#include "[^"]+/' --include='*.h' --include='*.cc' "$directory" || true)
}

probe=$(mktemp -d)
trap 'rm -rf "$probe"' EXIT
echo '#include "extender/server.h"' >"$probe/upward.cc"
[ -n "$(violations policy "$probe")" ] || { echo "layering: the check itself finds nothing"; exit 1; }

found=""
for folder in "${!allowed[@]}"; do
  [ -d "$root/$folder" ] && found+=$(violations "$folder" "$root/$folder")
done
if [ -n "$found" ]; then
  echo "layering: includes that go up or sideways:"
  echo "$found"
  exit 1
fi
echo "layering: ok"
