#!/usr/bin/env bash
# Runs the CUDA tests on a machine that has a GPU but not necessarily a compiler or our libraries.
#
#   tests/cuda/run_on_gpu.sh pack BUILD [BUNDLE]   on the machine that built: writes BUNDLE
#                                                  (default: gpu_bundle.tar.gz)
#   tests/cuda/run_on_gpu.sh [BUNDLE] [STEP...]    on the machine with the GPU; steps: tests ops
#                                                  bench sanitize (default: tests ops bench)
#
# The bundle holds the programs, our two libraries and those of the distribution that they need and
# that another machine may lack. The driver, cuBLASLt and NVRTC come from the machine itself.
set -euo pipefail

pack() {
  local build=$1 bundle=${2:-gpu_bundle.tar.gz}
  stage=$(mktemp -d)  # not local: the trap below reads it after this function
  trap 'rm -rf "$stage"' EXIT
  mkdir -p "$stage/bin" "$stage/lib" "$stage/carry"
  for program in tensora-cuda-tests tensora-ops tensora-cuda-bench; do
    [ -x "$build/bin/$program" ] && cp "$build/bin/$program" "$stage/bin/"
  done
  cp -L "$build/lib/libtensora.so.0" "$build/lib/libtensora_cuda.so" "$stage/lib/"
  # Everything but the C and C++ runtime, whose newer versions run programs of older ones.
  ldd "$build/lib/libtensora.so.0" | awk '/=> \// {print $3}' |
    { grep -Ev '/(libc|libm|libmvec|libpthread|libdl|librt|libstdc\+\+|libgcc_s)\.so' || true; } |
    while read -r library; do cp -L "$library" "$stage/carry/"; done
  strip --strip-unneeded "$stage"/bin/* "$stage"/carry/* 2>/dev/null || true
  tar -C "$stage" -czf "$bundle" .
  echo "carried libraries:"
  ls -l "$stage/carry" | awk 'NR > 1 {print "  " $NF, $5}'
  ls -l "$bundle" | awk '{print "bundle:", $NF, $5, "bytes"}'
}

# Runs one step, keeps its whole output in a log and prints what matters.
step() {
  local name=$1 filter=$2
  shift 2
  echo "=== $name"
  if [[ $1 == bin/* && ! -x $1 ]]; then
    echo "--- $name: $1 is not in the bundle"
    return
  fi
  local status=0 start=$SECONDS
  timeout 420 "$@" >"$logs/$name.log" 2>&1 || status=$?
  grep -E "$filter" "$logs/$name.log" | tail -n "${LINES_SHOWN:-70}" || true
  echo "--- $name: exit $status after $((SECONDS - start)) s"
  [ "$status" -eq 0 ] || failed="$failed $name"
}

run() {
  local bundle=gpu_bundle.tar.gz failed="" logs where
  logs=$(realpath "${OUT:-.}")/gpu_logs
  if [ $# -gt 0 ] && [ -f "$1" ]; then bundle=$1; shift; fi
  where=$(mktemp -d)
  tar -C "$where" -xzf "$bundle"
  mkdir -p "$logs"
  export LD_LIBRARY_PATH="$where/lib:$where/carry:/usr/local/cuda/lib64:/usr/local/cuda/lib:${LD_LIBRARY_PATH:-}"
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || true
  for program in "$where"/bin/*; do
    ldd "$program" | grep "not found" && echo "missing for $program" || true
  done
  cd "$where"
  for wanted in ${*:-tests ops bench}; do
    case $wanted in
      tests) step tests '^\[  (FAILED|PASSED|SKIPPED)|Failure|^/|  [A-Z].*:|element |which|gelu|terminate|what' \
               bin/tensora-cuda-tests --gtest_color=no ;;
      ops) step ops 'fail|FAIL|passed|cuda|rror' bin/tensora-ops --device cuda ;;
      bench) step bench . bin/tensora-cuda-bench ;;
      sanitize) step sanitize 'ERROR|=====|PASSED|FAILED' \
               compute-sanitizer --tool memcheck bin/tensora-cuda-tests --gtest_filter='*SizesAround*:*Broadcast*:*Reductions*' ;;
      *) echo "unknown step $wanted" >&2; exit 2 ;;
    esac
  done
  [ -z "$failed" ] && echo "all green" || { echo "failed:$failed"; exit 1; }
}

if [ "${1:-}" = pack ]; then
  shift
  pack "$@"
else
  run "$@"
fi
