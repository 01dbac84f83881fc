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

# oracle MINOR: path of the oracle (test/oracle) with this minor's kubelet ("none": without any),
# built unless it is there for these very sources. Run from ROOT.
oracle() {
  local key=none tags=() dir
  if [ "$1" != none ]; then
    key=k${1/./}
    [ -f "test/oracle/mod/$key.mod" ] || { echo "Kubernetes $1 is not known, see test/oracle/mod" >&2; return 2; }
    tags=(-modfile="mod/$key.mod" -tags "$key")
  fi
  # Two parts of a test run must not build the same one at once.
  exec 8>build/oracle.lock
  flock 8
  dir=build/oracle/$key-$( (go env GOVERSION; cat test/oracle/go.mod
    [ "$key" = none ] || cat "test/oracle/mod/$key.mod" "test/oracle/mod/$key.sum"
    find test/oracle \( -name '*.go' -o -name '*.s' \) ! -name '*_test.go' | LC_ALL=C sort | xargs cat) | sha256sum | cut -c1-12)
  if [ ! -x "$dir/oracle" ]; then
    echo "building the oracle of ${1/none/recordings} (the first build of a Kubernetes version takes minutes)" >&2
    rm -rf build/oracle/"$key"-*
    # Go's compiler needs a sixth less time when it collects its garbage less often.
    (cd test/oracle && GOGC=400 go build "${tags[@]}" -o "$ROOT/$dir/oracle" .) >&2
  fi
  exec 8>&-
  echo "$dir/oracle"
}

mkdir -p "$ROOT/build"
