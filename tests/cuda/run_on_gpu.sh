#!/usr/bin/env bash
# Runs the CUDA tests on a machine that has a GPU but not necessarily a compiler, our libraries or a
# network; `./dev gpu-test` is the way to it.
#
#   run_on_gpu.sh pack BUILD [BUNDLE]   on the machine that built: writes BUNDLE
#                                       (default: gpu_bundle.tar.gz)
#   run_on_gpu.sh [BUNDLE] [STEP...]    on the machine with the GPU
#
# The bundle holds the programs, our libraries, those of the distribution that they need and
# that another machine may lack, and this script: unpack it, and `./run_on_gpu.sh` runs it where it
# lies. The driver, cuBLASLt and NVRTC come from the machine itself.
#
# Steps: tests      the CUDA backend's own tests
#        ops        the op suite on the GPU
#        checked    the tests again with every launch waited for and checked
#        redzones   the op suite with red zones around every tensor, checked after each launch
#        bench      speed of the loops, of matmul and of launches, beside PyTorch where it is
#        matmul     the versions of the matmul workbench
#        launch     what a launch costs, piece by piece
#        allocator  our memory allocator on the patterns of training
#        memcheck, racecheck, synccheck   small tests and ops under NVIDIA's compute-sanitizer
# Without a step: tests ops bench launch allocator.
#
# Under $OUT (default: here) stand results.json, which sums the steps up, and gpu_logs/ with all
# that they printed: the tests' and the op suite's own JSON beside their logs.
set -euo pipefail

programs="tensora-cuda-tests tensora-ops tensora-bench-cuda tensora-bench-cuda_matmul
          tensora-bench-cuda_launch tensora-bench-cuda_allocator"

pack() {
  local build=$1 bundle=${2:-gpu_bundle.tar.gz}
  stage=$(mktemp -d)  # not local: the trap below reads it after this function
  trap 'rm -rf "$stage"' EXIT
  mkdir -p "$stage/bin" "$stage/lib" "$stage/carry"
  for program in $programs; do
    [ -x "$build/bin/$program" ] && cp "$build/bin/$program" "$stage/bin/"
  done
  cp -L "$build/lib/libtensora.so.0" "$build/lib/libtensora_llm.so.0" "$build/lib/libtensora_cuda.so" \
    "$stage/lib/"
  cp "${BASH_SOURCE[0]}" "$stage/run_on_gpu.sh"
  cp "$(dirname "${BASH_SOURCE[0]}")/../../bench/cuda.py" "$stage/bin/"
  # Everything but the C and C++ runtime, whose newer versions run programs of older ones.
  ldd "$build/lib/libtensora.so.0" | awk '/=> \// {print $3}' |
    { grep -Ev '/(libc|libm|libmvec|libpthread|libdl|librt|libstdc\+\+|libgcc_s)\.so' || true; } |
    while read -r library; do cp -L "$library" "$stage/carry/"; done
  strip --strip-unneeded "$stage"/bin/tensora-* "$stage"/carry/* 2>/dev/null || true
  tar -C "$stage" -czf "$bundle" .
  ls -l "$bundle" | awk '{print "bundle:", $NF, $5, "bytes"}'
}

# Runs one step, keeps its whole output in a log, prints what matters and adds a line of JSON.
step() {
  local name=$1 filter=$2
  shift 2
  echo "=== $name"
  local status=0 start=$SECONDS needed=$1
  if [ "$needed" = env ]; then
    for needed in "${@:2}"; do case $needed in *=*) ;; *) break ;; esac; done
  fi
  if ! command -v "$needed" >/dev/null; then
    echo "--- $name: $needed is not there" | tee "$logs/$name.log"
    status=127
  else
    timeout "${STEP_SECONDS:-420}" "$@" >"$logs/$name.log" 2>&1 || status=$?
    grep -E "$filter" "$logs/$name.log" | tail -n "${LINES_SHOWN:-70}" || true
    echo "--- $name: exit $status after $((SECONDS - start)) s"
  fi
  [ "$status" -eq 0 ] || failed="$failed $name"
  results+=("{\"step\": \"$name\", \"exit\": $status, \"seconds\": $((SECONDS - start)), \"log\": \"gpu_logs/$name.log\"}")
}

write_results() {
  local separator="" line
  {
    printf '{"gpu": "%s",\n "passed": %s,\n "steps": [' "$gpu" \
      "$([ -z "$failed" ] && echo true || echo false)"
    for line in "${results[@]}"; do
      printf '%s\n  %s' "$separator" "$line"
      separator=","
    done
    printf '\n ]}\n'
  } >"$out/results.json"
}

# The ops that a tool of compute-sanitizer looks at: accesses out of bounds are looked for in all
# that compute addresses of their own, races in those whose threads share memory.
sanitized_ops() {
  local shared=sum,amax,argmax,var,logsumexp,norm,prod,cumsum,cumprod,linear_scan,nonzero,randperm
  shared=$shared,multinomial,scatter_add,index_add,contiguous,matmul
  [ "$1" = memcheck ] || { echo "$shared"; return; }
  echo "$shared,add,where,index,gather,scatter,take,one_hot,unfold,cat,flip,tril,diag,bernoulli,adam"
}

run() {
  local bundle=gpu_bundle.tar.gz failed="" results=() logs out where gpu
  out=$(realpath "${OUT:-.}")
  logs=$out/gpu_logs
  if [ $# -gt 0 ] && [ -f "$1" ]; then bundle=$1; shift; fi
  where=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
  if [ ! -d "$where/bin" ] || [ -f "$bundle" ]; then
    where=$(mktemp -d)
    tar -C "$where" -xzf "$bundle"
  fi
  mkdir -p "$logs"
  export LD_LIBRARY_PATH="$where/lib:$where/carry:/usr/local/cuda/lib64:/usr/local/cuda/lib:${LD_LIBRARY_PATH:-}"
  # Without a GPU the tests would skip, which must not look like success.
  gpu=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>&1 | head -1) ||
    { echo "no GPU is found here (nvidia-smi: $gpu)" >&2; exit 1; }
  echo "GPU: $gpu"
  for program in "$where"/bin/tensora-*; do
    ldd "$program" | grep "not found" && echo "missing for $program" || true
  done
  cd "$where"
  local verdicts='^\[  (FAILED|PASSED|SKIPPED)|Failure|^/|  [A-Z].*:|element |which|terminate|what'
  local tests=bin/tensora-cuda-tests small='*SizesAround*:*Broadcast*:*Reductions*:*Graph*:*Wrong*'
  local sanitizer="compute-sanitizer --error-exitcode 9 --print-limit 20 --tool"
  local found='ERROR SUMMARY|RACECHECK SUMMARY|=========     at|=========     by|passed|PASSED|FAILED'
  for wanted in ${*:-tests ops bench launch allocator}; do
    case $wanted in
      tests) step tests "$verdicts" $tests --gtest_color=no --gtest_output="json:$logs/tests.json" ;;
      ops) step ops 'fail|FAIL|passed|cuda|rror' \
             bin/tensora-ops --device cuda --json "$logs/ops.json" ;;
      checked) step checked "$verdicts" env TENSORA_CUDA_CHECKED=1 $tests --gtest_color=no \
                 --gtest_filter='-*NeverWaits*:*WithoutWaiting*:*NamesTheLastOps*' ;;
      redzones) step redzones 'fail|FAIL|passed|cuda|rror' \
                  env TENSORA_CUDA_CHECKED=1 TENSORA_CUDA_RED_ZONES=1 bin/tensora-ops \
                  --device cuda --quick --mode value,view,inplace ;;
      bench) step bench . python3 bin/cuda.py --program bin/tensora-bench-cuda \
               --json "$logs/bench.json" ;;
      matmul) step matmul . bin/tensora-bench-cuda_matmul ;;
      launch) step launch . bin/tensora-bench-cuda_launch ;;
      allocator) step allocator . bin/tensora-bench-cuda_allocator ;;
      memcheck | racecheck | synccheck)
        # The tests make calls fail on purpose, which memcheck would report.
        local refusals=""
        [ "$wanted" != memcheck ] || refusals="--report-api-errors no"
        step "$wanted" "$found" $sanitizer "$wanted" $refusals $tests --gtest_filter="$small"
        step "${wanted}_ops" "$found" $sanitizer "$wanted" $refusals bin/tensora-ops --device cuda \
          --quick --mode value --dtype float32,int64 --filter "$(sanitized_ops "$wanted")" ;;
      *) echo "unknown step $wanted" >&2; exit 2 ;;
    esac
  done
  write_results
  echo "results: $out/results.json"
  [ -z "$failed" ] && echo "all green" || { echo "failed:$failed"; exit 1; }
}

if [ "${1:-}" = pack ]; then
  shift
  pack "$@"
else
  run "$@"
fi
