#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What only a node with GPUs can show, in fifteen parts of at most eight minutes each:
#   check        the GPU tests and verify at every team size that the GPUs allow (and, sharing GPUs, beyond), the demo
#   collectives  the tests of collectives at every team size, but for those of `graphs`
#   graphs       the tests that capture runs into CUDA graphs, and those of plans and teams in turns, at every team size;
#                those again on one connection to the GPU
#   replays      10^4 replays of everything, alone and beside another team's; what is let go of in odd orders
#   memcheck, memcheck-collectives, memcheck-collectives-3, memcheck-linear
#                the GPU tests under compute-sanitizer, those that take it no longer than minutes: of collectives at teams of
#                two, and of three; of linear layers' sums, weight gradients, meeting kernels and bulk overlap; of sharded parameters
#   fault        the tests that kill ranks
#   bench        collectives and overlapped linear layers, alone, in graphs and beside products; three timelines
#   tune         tandem tune of a transformer layer's products, how long each takes, what is as fast as that says, and
#                (several GPUs) the layer so beside PyTorch
#   peers        Tandem beside PyTorch's ways to do the same, and the ratios
#   layer        a Llama-70B-size transformer layer's linear parts through Tandem and through PyTorch (several GPUs)
#   sharded      training steps of MLPs of that size, with sharded parameters, through Tandem and through PyTorch's FSDP
#                (several GPUs)
#   attention    the tests of attention, local and context-parallel; attention to a sequence that the GPUs share, through
#                Tandem and through PyTorch's context_parallel (several GPUs)
# Stress tests do a tenth of their rounds, and a few kills amid each kind of operation, unless TANDEM_TEST_SCALE says
# otherwise. `--part fault --shard I/N`, for I from 0 to N - 1, kills 50 times amid each kind, whose forms share them,
# and does an Nth of the forms, all of them in N calls, which may run side by side, on GPUs of their own or on the same
# ones: four take up to eight minutes, and more no less, since the driver starts some four processes a second. Of the other
# parts that test, such a call does an Nth of the steps. A test of a GPU's free memory fails if another part runs on
# that GPU.
# Ranks that have to share a GPU run at once where the node has CUDA's multi-process service: the parts check, collectives,
# graphs and replays start one of their own, which ends with them; with a lone GPU bench, tune, peers and attention too. Without it (--no-mps),
# they take turns of milliseconds on the GPU.
# CUDA_VISIBLE_DEVICES restricts a part to some of the node's GPUs; so two parts can run side by side.
# Builds first, or takes a build made elsewhere. Each step has a time limit and a log of its own; one that fails or hangs
# hides no other. The last lines are a table of under 60 lines; the exit status says whether all steps passed.
#
#   scripts/gpu_node.sh --part check [--build DIR] [--out DIR] [--no-mps] [--shard I/N]
#   for gpu in 0 1; do
#     CUDA_VISIBLE_DEVICES=$gpu scripts/gpu_node.sh --part check --build build/cuda --shard $gpu/2 &
#   done; wait
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

usage() {
  sed -n '/^set /q; 3,$s/^# \{0,1\}//p' "scripts/gpu_node.sh"
  exit "$1"
}

parts="check, collectives, graphs, replays, memcheck, memcheck-collectives, memcheck-collectives-3, memcheck-linear"
parts+=", fault, bench, tune, peers, layer, sharded, attention"
part=""
build=""
out="${OUT:-build/gpu_node}"
mps=true
shard=0 shards=1
kills=()  # precedes the command of kill tests if they are split into shards
while [ $# -gt 0 ]; do
  case "$1" in
    --part) part="${2:?--part needs one of $parts}"; shift 2 ;;
    --build) build="${2:?--build needs a directory}"; shift 2 ;;
    --out) out="${2:?--out needs a directory}"; shift 2 ;;
    --no-mps) mps=false; shift ;;
    --shard)
      if [[ ! ${2:-} =~ ^([0-9]+)/([0-9]+)$ ]] || ((BASH_REMATCH[1] >= BASH_REMATCH[2] || BASH_REMATCH[2] > 16)); then
        echo "--shard is '${2:-}'; allowed: I/N with I from 0 to N - 1 and N at most 16, as in 0/10" >&2
        exit 2
      fi
      shard=${BASH_REMATCH[1]} shards=${BASH_REMATCH[2]}
      shift 2
      ;;
    -h | --help) usage 0 ;;
    *) echo "unknown argument '$1'" >&2; usage 2 ;;
  esac
done
if [[ -z $part || ", $parts," != *", $part,"* ]]; then
  echo "--part is '$part'; allowed: $parts" >&2
  exit 2
fi
if [[ $shards -gt 1 && " bench tune peers layer sharded attention " == *" $part "* ]]; then
  echo "--shard is for parts that test; --part $part measures" >&2
  exit 2
fi
out="$out/$part"
[ "$shards" -eq 1 ] || out+="-$shard-of-$shards"
rm -rf "$out"
mkdir -p "$out"
out="$(cd "$out" && pwd)"

# Where the toolkit's programs usually are, if they are not in PATH.
export PATH="$PATH:/usr/local/cuda/bin"
# NVLink multicast stays off, also in libraries that might use it by default.
export NCCL_NVLS_ENABLE=0
# Killing ranks ends their world, and starting one takes seconds: one world for each form of an operation, unless the
# forms are split into shards.
if [ "$part" = fault ]; then
  if [ "$shards" -gt 1 ]; then
    kills=(env "GTEST_TOTAL_SHARDS=$shards" "GTEST_SHARD_INDEX=$shard")
    export TANDEM_TEST_SCALE="${TANDEM_TEST_SCALE:-1}"
  fi
  export TANDEM_TEST_SCALE="${TANDEM_TEST_SCALE:-0.06}"
fi
export TANDEM_TEST_SCALE="${TANDEM_TEST_SCALE:-0.1}"
# Neither checks nor measurements should use what was tuned on this node.
export TANDEM_PLAN_CACHE="${TANDEM_PLAN_CACHE:-none}"

readonly started=$SECONDS budget=480
rows=()
failures=0
shares_steps=false  # whether this shard runs only some of the steps
steps=0             # so far, including those of other shards
setting=""  # appended to the room in the names of test steps

# failing_row NAME RESULT TEXT: adds a row to the table for something that could not be run as a step.
failing_row() {
  rows+=("$(printf '%-44s %-8s %5s  %s' "${1:0:44}" "$2" "" "${3:0:100}")")
  failures=$((failures + 1))
}

# step NAME LIMIT COMMAND...: runs it within LIMIT seconds and the part's remaining time; adds a row to the table.
step() {
  local name="$1" limit="$2" log result left begin=$SECONDS
  shift 2
  if $shares_steps && [ $((steps++ % shards)) -ne "$shard" ]; then return 0; fi
  log="$out/$(tr -c 'A-Za-z0-9_.\n-' '_' <<<"$name").log"
  left=$((budget - (SECONDS - started)))
  if [ "$left" -lt 5 ]; then
    failing_row "$name" "NOT RUN" "the part's $budget s are over"
    return 1
  fi
  [ "$limit" -le "$left" ] || limit=$left
  printf '== %s (at most %s s)\n' "$name" "$limit"
  printf '$ %s\n' "$*" >"$log"
  timeout --kill-after=10 "$limit" "$@" >>"$log" 2>&1 </dev/null &
  running=$! running_step="$name"
  wait "$running"
  local status=$?
  running=""
  case $status in
    0) result=pass ;;
    124 | 137) result="TIMEOUT" ;;
    *) result="FAIL $status" ;;
  esac
  # If all tests were skipped, nothing has been tested.
  if [ $status -eq 0 ] && grep -aq '^\[  PASSED  \] 0 tests' "$log"; then
    result="NOTHING"
    status=1
  fi
  [ $status -eq 0 ] || failures=$((failures + 1))
  rows+=("$(printf '%-44s %-8s %4ss  %s' "${name:0:44}" "$result" "$((SECONDS - begin))" "$(summary "$log" "$status")")")
  printf '   %s after %s s\n' "$result" "$((SECONDS - begin))"
  return $status
}

# The most informative line of a log: gtest's counts, verify's verdict, or the last line.
summary() {
  local log="$1" status="$2" line
  if line=$(grep -aoE '\[  PASSED  \] [0-9]+ tests?|\[  SKIPPED \] [0-9]+ tests?|\[  FAILED  \] [0-9]+ tests?' "$log"); then
    line=$(tr -d '[]' <<<"$line" | awk '{printf "%s%s %s", sep, $2, tolower($1); sep = ", "}')
    local failed
    failed=$(grep -a '^\[  FAILED  \] .*[/.]' "$log" | awk '{print $4}' | tr -d , | sort -u | head -2 | paste -sd' ')
    [ -z "$failed" ] || line="$line: $failed"
  elif line=$(grep -aoE '[0-9]+ passed, [0-9]+ failed' "$log" | tail -1) && [ -n "$line" ]; then
    :
  elif [ "$status" -ne 0 ] && line=$(grep -a '^\[ RUN      \]' "$log" | tail -1) && [ -n "$line" ]; then
    line="in ${line#\[ RUN      \] }"
  else
    line=$(grep -avE '^[[:space:]]*$|^# SM clocks' "$log" | tail -1)
  fi
  printf '%s' "${line:0:100}"
}

table() {
  printf '\n%-44s %-8s %5s  %s\n' "step" "result" "time" "what it said"
  printf '%s\n' "${rows[@]:0:54}"
  [ "${#rows[@]}" -le 54 ] || printf '… and %s more steps: see the logs\n' "$((${#rows[@]} - 54))"
  printf 'part %s: %s steps, %s not passed, %s s; %s GPU%s%s; logs in %s\n' "$part" "${#rows[@]}" "$failures" \
    "$((SECONDS - started))" "$gpus" "$([ "$gpus" -eq 1 ] || echo s)" "$($at_once && echo ', whose ranks run at once')" "$out"
}

# If the script is stopped, stops the step too, and prints the table so far.
running="" running_step=""
cut_off() {
  trap '' TERM INT
  if [ -n "$running" ]; then
    kill "$running" 2>/dev/null
    wait "$running"
    failing_row "$running_step" "CUT OFF" "the part was stopped"
  fi
  table
  exit 143
}

# The rows of the benchmarks' tables, without their comments.
figures() {
  local log
  for log in "$out"/bench_*.log; do
    printf '%s\n' "$(basename "$log" .log | sed 's/^bench_//')"
    grep -avE '^[$#]|^[[:space:]]*$' "$log" | cut -c1-150 | head -5
  done
}

# timeline OPERATION ARGUMENT...: a step that writes one iteration's timeline.
timeline() {
  local picture=()
  ! python3 -c 'import matplotlib' 2>/dev/null || picture=(--plot "$out/$1.png")
  step "timeline of $1" 60 "$tandem" bench "$1" -n "$ranks" --device cuda -d bf16 --iters 5 "${@:2}" \
    --timeline "$out/$1.json" "${picture[@]}"
}

# tuned OPERATION SHAPE ARGUMENT...: a step that tunes one shape; its time is the row's.
tuned() {
  step "tune $*" 60 "$tandem" tune "$1" -n "$ranks" --device cuda -d bf16 --shape "${@:2}"
}

# layer_beside_pytorch ROUNDS LIMIT: a step that compares a transformer layer in Tandem and in PyTorch, and its table.
# Both keep what they gather, and pause before each run (else the program with the slower host has cooler GPUs).
layer_beside_pytorch() {
  step "layer beside PyTorch, $gpus ranks" "$2" benchmarks/transformer_layer/run.sh --build "$build" --device cuda \
    --ranks "$gpus" --size llama-70b --rounds "$1" --iters 5 --rest 20 --modes plain,async \
    --rows 16 --keep-gathered
  sed -n '/^# /,$p' "$out"/layer_*.log | cut -c1-150
}

# sharded_beside_pytorch TOKENS LAYERS GRADIENTS: a step that compares training steps with sharded parameters in Tandem
# and in PyTorch, gradients in this dtype, and its table.
sharded_beside_pytorch() {
  step "sharded layers, $1 tokens, gradients in $3" 160 benchmarks/sharded_layers/run.sh --build "$build" --device cuda \
    --ranks "$gpus" --rounds 1 --iters 10 --layers "$2" --hidden 8192 --mlp 28672 --tokens "$1" --gradient-dtype "$3"
  sed -n '/^# /,$p' "$out/sharded_layers__$1_tokens__gradients_in_$3.log" | cut -c1-150
}

# sequence_beside_pytorch TOKENS KV_HEADS MASK: a step that compares attention of 64 heads to a sequence of as many tokens
# for each GPU, in Tandem and in PyTorch, and its table.
sequence_beside_pytorch() {
  local name="sequence of $1 a rank, $2 kv heads, $3"
  step "$name" 120 benchmarks/long_sequence/run.sh --build "$build" --device cuda --ranks "$gpus" --rounds 1 --iters 10 \
    --tokens $(($1 * gpus)) --heads 64 --kv-heads "$2" --head-dim 128 --dtype bf16 --mask "$3"
  sed -n '/^# /,$p' "$out/$(tr -c 'A-Za-z0-9_.\n-' '_' <<<"$name").log" | cut -c1-150
}

# test_steps ROOM FILTER LIMIT [NOT]: one step for each suite of a room's tests that has a test matching FILTER, so that
# a hang in one does not affect the others; suites whose names match the regular expression NOT are left out. It is a
# failure if no test matches FILTER: names change, and filters are forgotten.
test_steps() {
  local binaries=("$build"/tests/*/"tandem-test-$1") list suites suite
  local binary="${binaries[0]}"
  if [ ! -x "$binary" ]; then
    step "$1 tests" 5 test -x "$binary"
    return
  fi
  list=$(timeout 30 "$binary" --gtest_list_tests --gtest_filter="$2" 2>/dev/null </dev/null) || {
    failing_row "$1 tests" "FAIL $?" "the tests cannot be listed"
    return
  }
  suites=$(awk '/^[^ ].*\.$/ {print $1}' <<<"$list")
  if [ -z "$suites" ]; then
    failing_row "$1 tests" "NOTHING" "no test matches $2"
    return
  fi
  while read -r suite; do
    [[ -z ${4:-} || ! $suite =~ $4 ]] || continue
    step "${suite%.} ($1$setting)" "$3" "${kills[@]}" "$binary" --gtest_filter="$(matching "$suite" "$2")"
  done <<<"$suites"
}

# on_teams NAME: a filter for suites with NAME in their names: tests that make their own teams, and those of each size.
on_teams() {
  printf '*%s*.*/cuda' "$1"
  printf ":*$1*.*/cuda_%s" "${sizes[@]}"
}

# The tests of one suite that match a filter of the form a:b:c.
matching() {
  local pattern joined=""
  IFS=: read -ra patterns <<<"$2"
  for pattern in "${patterns[@]}"; do joined="$joined:$1${pattern#*.}"; done
  printf '%s' "${joined#:}"
}

cores=$(nproc)
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU') || gpus=0
if [ -n "${CUDA_VISIBLE_DEVICES:-}" ] && [ "$gpus" -gt 0 ]; then
  # By UUID: for clients of a multi-process service with fewer GPUs than the node has, indices have another meaning.
  CUDA_VISIBLE_DEVICES=$(nvidia-smi -i "$CUDA_VISIBLE_DEVICES" --query-gpu=uuid --format=csv,noheader | paste -sd,)
  export CUDA_VISIBLE_DEVICES
  gpus=$(tr , '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep -c '^GPU') || gpus=0
fi
if [ "$gpus" -eq 0 ]; then
  echo "no GPU here: nvidia-smi lists none" >&2
  exit 2
fi

# run_at_once: starts the multi-process service; false if there is none.
run_at_once() {
  command -v nvidia-cuda-mps-control >/dev/null || return
  CUDA_MPS_PIPE_DIRECTORY=$(mktemp -d) || return
  export CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY="$CUDA_MPS_PIPE_DIRECTORY"
  trap 'nvidia-cuda-mps-control <<<quit >/dev/null 2>&1; rm -rf "$CUDA_MPS_PIPE_DIRECTORY"' EXIT
  timeout 20 nvidia-cuda-mps-control -d >/dev/null 2>&1 </dev/null
}
# Not if ranks are killed, nor with compute-sanitizer: the service would go down with one of its clients.
at_once=false
case "$part" in
  check | collectives | graphs | replays) sharing=true ;;
  bench | tune | peers | attention) sharing=$([ "$gpus" -eq 1 ] && echo true || echo false) ;;
  *) sharing=false ;;
esac
if $sharing && $mps && run_at_once; then at_once=true; fi
trap cut_off TERM INT
nvidia-smi --query-gpu=index,name,driver_version,memory.total,clocks.sm,clocks.max.sm --format=csv >"$out/gpus.csv" 2>&1

if [ -z "$build" ]; then
  build="$PWD/build/cuda"
  step "configure" 120 cmake --preset cuda -DTANDEM_BENCHMARKS=ON
  step "build" 420 cmake --build "$build" --parallel "$cores"
fi
build="$(cd "$build" 2>/dev/null && pwd)" || { echo "there is no build directory" >&2; exit 2; }
tandem="$build/tools/tandem"
[ -x "$tandem" ] || { echo "$tandem is not there" >&2; table; exit 2; }

# A build from another machine has a path to the library that is wrong here.
export LD_LIBRARY_PATH="$build/src${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# One rank for each GPU; two that share a lone GPU.
ranks=$((gpus > 1 ? gpus : 2))
# Teams of up to as many ranks as GPUs, and of up to 5 in any case, sharing GPUs. A lone GPU has time only for fewer
# cases and a tenth of the training. Most of the demo's time is its fp64 reference, which grows with blocks and tokens.
sizes=()
for n in 1 2 3 4 5 8; do
  if [ "$n" -le 5 ] || [ "$n" -le "$gpus" ]; then sizes+=("$n"); fi
done
cases=20
demo=()
if [ "$gpus" -eq 1 ]; then
  cases=5
  demo=(--steps 30 --layers 2 --batch 256 --wide 1024)
fi

alone="NCCL does not support two ranks on one GPU, and a single rank has nothing to communicate"

# Errors that tests provoke, such as the driver's refusal of too much memory, are not findings.
memcheck=(compute-sanitizer --tool memcheck --report-api-errors no --target-processes all --error-exitcode 99)

[ "$part" = fault ] || shares_steps=true  # `fault` splits the forms of operations instead
case "$part" in
  check)
    step "info" 60 "$tandem" info
    TANDEM_TEST_NEEDS_GPU=1 test_steps device 'OpenDevice.*' 30
    test_steps device '*.*/cuda*' 60
    test_steps team '*.*/cuda*' 60
    test_steps memory '*.*/cuda*' 60
    step "demo, $ranks ranks" 120 "$tandem" demo -n "$ranks" --device cuda --out "$out/demo" "${demo[@]}"
    for n in "${sizes[@]}"; do
      step "verify all, $n ranks" 60 "$tandem" verify all -n "$n" --device cuda --cases "$cases"
    done
    # A team of eight, even if its ranks share GPUs: each rank has SMs of its own for kernels that wait.
    if [ "$gpus" -lt 8 ]; then
      step "verify all, 8 ranks that share GPUs" 90 "$tandem" verify all -n 8 --device cuda --cases 5
    fi
    step "tune, $ranks ranks" 60 "$tandem" tune all_gather_linear -n "$ranks" --device cuda --shape 1024,2048,1024 \
      --cache "$out/plans"
    # The other tests are in the parts `graphs` and `replays`.
    test_steps linear '*.*/cuda*' 90 'Capture|Interleaving|Replay'
    test_steps sharded '*.*/cuda*' 90 'Replay'
    test_steps language-model '*.*/cuda' 90
    test_steps transformer-layer '*.*/cuda*' 90
    test_steps sharded-layers '*.*/cuda*' 60
    ;;
  collectives)
    others='Capture|Interleaving|TwoTeams|Replay'
    [ "$gpus" -gt 1 ] || others+='|FullGpu'  # ranks that share a GPU fill it for each other
    test_steps collective "$(on_teams '')" 180 "$others"
    ;;
  graphs)
    test_steps collective '*Capture*.*/cuda*' 240
    test_steps linear '*Capture*.*/cuda*' 90
    test_steps collective "$(on_teams Interleaving):$(on_teams TwoTeams)" 90
    test_steps linear '*Interleaving*.*/cuda*' 90
    step "bench all_reduce in graphs" 60 "$tandem" bench all_reduce -n "$ranks" --device cuda -d bf16 -b 1K -e 1M -f 32 \
      --iters 10 -G 3
    step "bench all_gather_linear in graphs" 60 "$tandem" bench all_gather_linear -n "$ranks" --device cuda \
      --shape 512,2048,1024 --iters 5 -G 3
    # The branches of a graph must also give right results on one connection to the GPU.
    export CUDA_DEVICE_MAX_CONNECTIONS=1 TANDEM_TEST_MAX_RANKS=3
    setting=", one connection"
    test_steps collective '*Capture*.*/cuda*' 90
    test_steps linear '*Capture*.*/cuda*' 60
    # Nor may one stream's work block another's for good there.
    test_steps collective "$(on_teams Interleaving):$(on_teams TwoTeams)" 60
    test_steps linear '*BulkOverlap*.*/cuda*' 60
    test_steps sharded '*ShardedParameters*.*/cuda*' 60
    ;;
  replays)
    # If ranks take turns on a GPU, a fiftieth.
    replays=1
    if [ "$gpus" -eq 1 ] && ! $at_once; then replays=0.02; fi
    for room in collective linear sharded attention; do
      TANDEM_TEST_SCALE=$replays test_steps "$room" '*ReplayStress*.*/cuda*' 260
    done
    test_steps wrong_use '*.*/cuda*' 120
    ;;
  memcheck)
    # Left out: tests of work that runs concurrently with a waiting kernel, or with work held back on a destroyed
    # stream, or of a host that goes on meanwhile; under memcheck the driver runs nothing concurrently. Ranks that share
    # a GPU then take turns of tenths of a second: hence small teams.
    step "memcheck of device" 120 "${memcheck[@]}" "$build/tests/device/tandem-test-device" \
      --gtest_filter='*/cuda*-*DestructorDoesNotWaitAndWorkStillRuns*:*StreamThrewThatIsGone*:*NothingIsLoadedLateWhileAKernelWaits*:*CopyEngine*:*LeaveSms*'
    step "memcheck of memory" 240 env TANDEM_TEST_MAX_RANKS=2 "${memcheck[@]}" "$build/tests/memory/tandem-test-memory" \
      --gtest_filter='*/cuda*-*AnExceptionEnds*'
    step "memcheck of linear" 240 "${memcheck[@]}" "$build/tests/linear/tandem-test-linear" \
      --gtest_filter='*FewTokens*/cuda:*/AllGatherLinearTest.Layouts*/cuda:*LinearCapture.WhatARun*/cuda'
    ;;
  memcheck-collectives)
    # Left out here and below: tests that run the same kernels again, on more and larger tensors.
    step "memcheck of collective, 2 ranks" 340 "${memcheck[@]}" "$build/tests/collective/tandem-test-collective" \
      --gtest_filter='*/cuda_2-*RootsTakeTurnsWhile*'
    step "memcheck of graphs, rows and teams in turns, 3 ranks" 230 "${memcheck[@]}" \
      "$build/tests/collective/tandem-test-collective" \
      --gtest_filter='*Interleaving*/cuda_3:*Convenience*/cuda_3:*Capture*/cuda_3:*Strided*/cuda_3'
    ;;
  memcheck-collectives-3)
    step "memcheck of collective, 3 ranks" 470 "${memcheck[@]}" "$build/tests/collective/tandem-test-collective" \
      --gtest_filter='*/cuda_3-*RootsTakeTurnsWhile*:*Interleaving*:*Convenience*:*Capture*:*Strided*'
    ;;
  memcheck-linear)
    # Left out: two concurrent collectives, whose waits would block each other.
    export TANDEM_TEST_MAX_RANKS=2
    linear=("${memcheck[@]}" "$build/tests/linear/tandem-test-linear")
    step "memcheck of sums of two ranks in groups" 120 "${linear[@]}" --gtest_filter='*/RowParallel.TwoRanks*/cuda'
    step "memcheck of meeting kernels" 120 "${linear[@]}" \
      --gtest_filter='*/RowParallel.WhatIsNotSmall*/cuda:*/AllGatherLinearTest.LargeShards*/cuda'
    step "memcheck of weight gradients" 120 "${linear[@]}" \
      --gtest_filter='*/WeightGradient.EveryTeamSize*/cuda:*/WeightGradient.*Start*/cuda'
    step "memcheck of bulk overlap" 60 "${linear[@]}" --gtest_filter='*/BulkOverlapTest.BothAreRight*/cuda'
    step "memcheck of sums, layouts and epilogues" 240 "${linear[@]}" \
      --gtest_filter='*/RowParallel.Layouts*/cuda:*/RowParallel.BothGelus*/cuda'
    step "memcheck of sharded parameters" 120 "${memcheck[@]}" "$build/tests/sharded/tandem-test-sharded" \
      --gtest_filter='*/ShardedParametersTest.StepsAreRight*/cuda:*/ShardedParametersTest.Orders*/cuda'
    ;;
  fault)
    if [ "$shards" -eq 1 ]; then
      step "info" 60 "$tandem" info
      for room in device memory collective; do  # only these have such tests
        test_steps "$room" '*.*Lost*/cuda*:*.*Dead*/cuda*:*.*Abort*/cuda*:*.*Deadline*/cuda*' 60
      done
    fi
    test_steps fault '*.*/cuda*' 300
    ;;
  bench)
    for operation in all_gather reduce_scatter all_reduce all_to_all broadcast; do
      step "bench $operation" 60 "$tandem" bench "$operation" -n "$ranks" --device cuda -d bf16 -b 1K -e 64M -f 16
    done
    # As others measure it: without the host's overhead.
    step "bench all_reduce in graphs" 60 "$tandem" bench all_reduce -n "$ranks" --device cuda -d bf16 -b 1K -e 64M -f 4 \
      --iters 50 -G 20
    for operation in all_gather reduce_scatter all_to_all broadcast; do
      step "bench $operation in graphs" 60 "$tandem" bench "$operation" -n "$ranks" --device cuda -d bf16 -b 1K -e 64M \
        -f 16 --iters 50 -G 20
    done
    # Column-parallel layers first, then row-parallel ones: shapes for which others publish results.
    step "bench all_gather_linear" 90 "$tandem" bench all_gather_linear -n "$ranks" --device cuda -d bf16 \
      --shape 8192,57344,8192 --shape 8192,10240,8192 --shape 4096,49152,12288 --shape 1024,28672,8192 --shape 64,28672,8192
    for operation in linear_reduce_scatter linear_all_reduce; do
      step "bench $operation" 90 "$tandem" bench "$operation" -n "$ranks" --device cuda -d bf16 \
        --shape 8192,8192,28672 --shape 8192,8192,8192 --shape 4096,12288,49152 --shape 1024,8192,28672 --shape 64,8192,28672
    done
    for dtype in f32 bf16; do
      step "bench linear_weight_gradient into $dtype" 60 "$tandem" bench linear_weight_gradient -n "$ranks" --device cuda \
        -d bf16 --gradient-dtype "$dtype" --shape 8192,57344,8192 --shape 8192,10240,8192
    done
    step "bench transformer layer" 90 "$tandem" run -n "$ranks" --device cuda -- \
      "$build/examples/transformer_layer/transformer_layer" --size llama-70b --iters 5
    for operation in all_gather reduce_scatter all_reduce all_to_all broadcast; do
      step "bench $operation beside a product" 60 "$tandem" bench "$operation" -n "$ranks" --device cuda -d f16 -b 16M \
        -e 256M -f 16 --beside 8192,8192,8192
    done
    # To look at what is exposed: a Chrome trace of each, and its picture if Python can draw it.
    timeline all_gather_linear --shape 8192,10240,8192
    timeline linear_all_reduce --shape 8192,8192,8192
    timeline all_gather -b 64M -e 64M --beside 8192,8192,8192
    figures
    ;;
  tune)
    # Forward, gradient of x and gradient of the weight: of column-parallel layers (QKV, MLP up), then of row-parallel
    # ones. Gradients of weights have the layer's dtype, as in transformer_layer.
    export TANDEM_PLAN_CACHE="$out/plans"
    for shape in 8192,10240,8192 8192,57344,8192; do
      tuned all_gather_linear "$shape"
      IFS=, read -r m n k <<<"$shape"
      tuned linear_reduce_scatter "$m,$k,$n" --layout NN
      tuned linear_weight_gradient "$shape" --gradient-dtype bf16
    done
    for shape in 8192,8192,8192 8192,8192,28672; do
      tuned linear_reduce_scatter "$shape"
      IFS=, read -r m n k <<<"$shape"
      tuned all_gather_linear "$m,$k,$n" --layout NN
      tuned linear_weight_gradient "$shape" --gathered dy --gradient-dtype bf16
    done
    step "bench all_gather_linear" 60 "$tandem" bench all_gather_linear -n "$ranks" --device cuda -d bf16 \
      --shape 8192,10240,8192 --shape 8192,57344,8192
    step "bench all_gather_linear NN" 60 "$tandem" bench all_gather_linear -n "$ranks" --device cuda -d bf16 \
      --shape 8192,8192,8192 --shape 8192,28672,8192 --layout NN
    step "bench linear_reduce_scatter" 60 "$tandem" bench linear_reduce_scatter -n "$ranks" --device cuda -d bf16 \
      --shape 8192,8192,8192 --shape 8192,8192,28672
    step "bench linear_reduce_scatter NN" 60 "$tandem" bench linear_reduce_scatter -n "$ranks" --device cuda -d bf16 \
      --shape 8192,8192,10240 --shape 8192,8192,57344 --layout NN
    step "bench linear_weight_gradient" 60 "$tandem" bench linear_weight_gradient -n "$ranks" --device cuda -d bf16 \
      --gradient-dtype bf16 --shape 8192,10240,8192 --shape 8192,57344,8192
    step "bench transformer layer" 90 "$tandem" run -n "$ranks" --device cuda -- \
      "$build/examples/transformer_layer/transformer_layer" --size llama-70b --iters 5
    figures
    if [ "$gpus" -gt 1 ]; then layer_beside_pytorch 1 120; fi
    ;;
  peers)
    peers=(benchmarks/peers/run.sh --build "$build" --device cuda)
    if [ "$gpus" -gt 1 ]; then
      step "peers, $gpus ranks" 470 "${peers[@]}" --ranks "$gpus" --size node --rounds 1 --rows 32 \
        --limit 400 --out "$out/peers" --plot "$out/peers.png"
    else
      # NCCL does not support two ranks on one GPU: one rank with it, then two that share the GPU without it.
      step "peers, 1 rank" 240 "${peers[@]}" --ranks 1 --rounds 1 --limit 220 --out "$out/peers"
      step "peers, 2 ranks" 240 "${peers[@]}" --ranks 2 --rounds 1 --limit 220 --out "$out/shared"
    fi
    for folder in "$out/peers" "$out/shared"; do
      [ ! -d "$folder" ] || python3 -B benchmarks/peers/table.py --ratios "$folder" | cut -c1-150
    done
    ;;
  layer)
    if [ "$gpus" -gt 1 ]; then
      layer_beside_pytorch 3 470
    else
      failing_row "layer beside PyTorch" "NOT RUN" "$alone"
    fi
    ;;
  sharded)
    if [ "$gpus" -gt 1 ]; then
      sharded_beside_pytorch 4096 4 bf16
      sharded_beside_pytorch 4096 4 f32
      sharded_beside_pytorch 1024 8 bf16
    else
      failing_row "sharded layers beside PyTorch" "NOT RUN" "$alone"
    fi
    ;;
  attention)
    test_steps device '*Attention*.*/cuda*' 60
    test_steps attention '*.*/cuda*' 90 'Replay'
    test_steps long-sequence '*.*/cuda*' 60
    if [ "$gpus" -gt 1 ]; then
      sequence_beside_pytorch 8192 8 causal
      sequence_beside_pytorch 8192 64 causal
      sequence_beside_pytorch 4096 8 full
    else
      failing_row "long sequence beside PyTorch" "NOT RUN" "$alone"
    fi
    ;;
esac
[ "${#rows[@]}" -gt 0 ] || failing_row "shard $shard of $shards" "NOTHING" "the part has no more than $steps steps"
table
[ "$failures" -eq 0 ]
