#!/usr/bin/env bash
# Builds the programs of the lab into build/lab/bin: the real etcd, kube-apiserver, kube-scheduler,
# kube-controller-manager, kubelet and kubectl, and on demand Kueue, from their published Go modules.
#
# A program is built again only when something it is made of changed: the module files, the Go
# version, or the version stamp. A second run costs a few milliseconds.
#
#   test/lab/build.sh            build what is missing
#   test/lab/build.sh kueue      ... and the real Kueue, which only its tests need
#   test/lab/build.sh --print    print the folder of the programs and build nothing
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
out=${NUMAFIT_LAB_BIN:-$root/build/lab/bin}

if [[ ${1:-} == --print ]]; then
  echo "$out"
  exit 0
fi

with_kueue=0
case ${1:-} in
  '') ;;
  kueue) with_kueue=1 ;;
  *) echo "build.sh: no argument '$1'; see the head of this file" >&2; exit 2 ;;
esac

# CustomResourceDefinitions of others that tests install come from their published modules, too.
for module in github.com/k8stopologyawareschedwg/noderesourcetopology-api@v0.1.2; do
  [[ -d $(go env GOMODCACHE)/$module ]] || (cd / && go mod download "$module")
done

mkdir -p "$out"
# Two runs at once (a test beside a person) must not build into each other.
exec 9>"$out/.lock"
flock 9

# Go's compiler needs a sixth less time when it collects its garbage less often.
export GOGC=400

version=$(sed -n 's,^[[:space:]]*k8s.io/kubernetes \(v[0-9.]*\)$,\1,p' "$here/go.mod")
minor=${version#v1.}
minor=${minor%%.*}
# Without the stamp a node reports v0.0.0-master and version gates go wrong.
stamp_flags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  stamp_flags+=" -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$minor"
  stamp_flags+=" -X $package.gitTreeState=clean -X $package.buildDate=1970-01-01T00:00:00Z"
done

go_version=$(go env GOVERSION)
# The versions of all modules decide what a program is made of; go.sum only verifies them, and which
# module the harness itself imports ("// indirect") changes nothing.
key_of() {
  { echo "$go_version" "$stamp_flags"; cat "$@" | sed 's,[[:space:]]*// indirect$,,' | sort; } |
    sha256sum | cut -d' ' -f1
}

kubernetes_key=$(key_of "$here/go.mod")
etcd_key=$(key_of "$here/etcd/go.mod" "$here/etcd/main.go")

is_current() {  # name key
  [[ -x $out/$1 && -f $out/.$1.key && $(<"$out/.$1.key") == "$2" ]]
}

built=0
if ! is_current etcd "$etcd_key"; then
  echo "lab: building etcd (about a minute the first time)" >&2
  (cd "$here/etcd" && go build -ldflags "-s -w" -o "$out/etcd" .)
  echo "$etcd_key" >"$out/.etcd.key"
  built=1
fi

missing=()
for name in kube-apiserver kube-scheduler kube-controller-manager kubelet kubectl; do
  is_current "$name" "$kubernetes_key" || missing+=("$name")
done
if ((${#missing[@]})); then
  echo "lab: building ${missing[*]} $version (about ten minutes with an empty Go cache)" >&2
  # One call, so that the shared packages are compiled once and the linkers overlap. Not -trimpath:
  # it has a cache of its own.
  (cd "$here" && go build -ldflags "$stamp_flags" -o "$out/" "${missing[@]/#/k8s.io/kubernetes/cmd/}")
  for name in "${missing[@]}"; do
    echo "$kubernetes_key" >"$out/.$name.key"
  done
  built=1
fi

if ((with_kueue)); then
  kueue_version=$(sed -n 's,^[[:space:]]*sigs.k8s.io/kueue \(v[0-9.]*\).*,\1,p' "$here/kueue/go.mod")
  kueue_key=$(key_of "$here/kueue/go.mod")
  if ! is_current kueue "$kueue_key" || [[ ! -d $out/kueue-manifests ]]; then
    echo "lab: building kueue $kueue_version (about four minutes with an empty Go cache)" >&2
    (cd "$here/kueue" &&
      go build -ldflags "-s -w -X sigs.k8s.io/kueue/pkg/version.GitVersion=$kueue_version" \
        -o "$out/kueue" sigs.k8s.io/kueue/cmd/kueue)
    # What a person installs beside the program: definitions of its objects, and its webhooks.
    module=$(cd "$here/kueue" && go list -m -f '{{.Dir}}' sigs.k8s.io/kueue)
    rm -rf "$out/kueue-manifests"
    mkdir -p "$out/kueue-manifests/crd"
    install -m 644 "$module"/config/components/crd/bases/*.yaml "$out/kueue-manifests/crd/"
    install -m 644 "$module/config/components/webhook/manifests.yaml" "$out/kueue-manifests/webhooks.yaml"
    echo "$kueue_key" >"$out/.kueue.key"
    built=1
  fi
fi
((built)) && echo "lab: programs are in $out" >&2
exit 0
