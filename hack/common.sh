# Sourced by the scripts of hack/: where things are, and how parts are built.
# Sets ROOT; nothing runs until a function is called.
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# ctest and ninja take their parallelism from here.
: "${NUMAFIT_JOBS:=$(nproc)}"
export NUMAFIT_JOBS

# build PRESET TARGET...: configures when needed and builds into build/PRESET.
build() {
  local preset=$1
  shift
  [ -f "$ROOT/build/$preset/build.ninja" ] ||
    (cd "$ROOT" && cmake --preset "$preset" >"$ROOT/build/$preset.configure.log" 2>&1) ||
    { cat "$ROOT/build/$preset.configure.log" >&2; return 1; }
  ninja -C "$ROOT/build/$preset" -j "$NUMAFIT_JOBS" "$@"
}

# need_go: the lab and the oracle run the real Kubernetes components, which are built with Go.
need_go() {
  local version
  version=$(go env GOVERSION 2>/dev/null || true)
  case "$version" in
    go1.2[6-9]*|go1.[3-9][0-9]*) ;;
    *) echo "needs Go 1.26 or newer to build the real Kubernetes components (found: ${version:-none})" >&2
       return 1 ;;
  esac
}

mkdir -p "$ROOT/build"
