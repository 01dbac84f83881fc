#!/usr/bin/env bash
# The one list of system packages that numafit needs to build, run and pass its tests.
# Installs what is missing, touches nothing else; a second run costs well under a second.
set -euo pipefail

packages=(
  # build
  g++ cmake ninja-build ccache pkg-config make git ca-certificates
  # libraries (docs/dependencies.md says what each is for)
  libcpp-httplib-dev libssl-dev zlib1g-dev libbrotli-dev
  libsimdjson-dev nlohmann-json3-dev libyaml-cpp-dev
  libabsl-dev libprotobuf-dev protobuf-compiler libgrpc++-dev protobuf-compiler-grpc
  libspdlog-dev libfmt-dev prometheus-cpp-dev libcurl4-openssl-dev
)
test_packages=(
  libgtest-dev libgmock-dev libbenchmark-dev
  clang-16 clang-tidy-16 clang-format-16 libclang-rt-16-dev
  llvm-16  # its symbolizer: sanitizers name functions, and suppressions go by names
  # the lab: namespaces, certificates
  iproute2 util-linux openssl curl
  # prometheus and promtool, for the alerts
  prometheus
)

missing=()
for package in "${packages[@]}" "${test_packages[@]}"; do
  dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "install.sh: needs root to install: ${missing[*]}" >&2; exit 1; }
  sudo=(sudo)
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
if [[ " ${missing[*]} " == *' prometheus '* ]] && command -v systemctl >/dev/null; then
  # Only its programs are wanted. The package would start a server on port 9090, now and at every boot;
  # `systemctl unmask prometheus` gives it back.
  "${sudo[@]}" systemctl mask prometheus.service >/dev/null 2>&1 || true
fi
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
