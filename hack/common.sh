# Sourced by the scripts of hack/: where things are, and how parts are built.
# Sets ROOT; nothing runs until a function is called.
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# ccache's default cache is used where ccache exists and never required.
if command -v ccache >/dev/null 2>&1; then
  export NUMAFIT_COMPILER_LAUNCHER=ccache
  # The same source compiled in another checkout or another build folder is the same object.
  export CCACHE_BASEDIR=$ROOT CCACHE_NOHASHDIR=1
else
  export NUMAFIT_COMPILER_LAUNCHER=
fi
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
