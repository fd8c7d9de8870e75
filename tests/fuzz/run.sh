#!/bin/sh
# Fuzzes the readers of data sets with libFuzzer and the address and undefined-behaviour sanitizers.
#   tests/fuzz/run.sh [SECONDS [FORMAT...]]     seconds each (default: 300); formats: the folders of tests/fuzz/seeds
# Needs clang. It builds in build/fuzz and adds the inputs that it finds to build/fuzz/FORMAT. It fails at the first
# crash, memory error, input that takes 10 seconds, or use of more than 1 GiB.
set -eu
cd "$(dirname "$0")/../.."
seconds=${1:-300}
[ $# -eq 0 ] || shift
# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $(ls tests/fuzz/seeds)

out=build/fuzz
mkdir -p $out/objects
export flags="-std=c++20 -O1 -g -I. -fsanitize=address,undefined -fno-sanitize-recover=all"
compiler=clang++
command -v ccache >/dev/null && compiler="ccache clang++"
export compiler out
ls engine/data/*.cpp engine/files/*.cpp backends/files/*.cpp engine/nearest.cpp | xargs -P 2 -I{} sh -c \
    '$compiler $flags -fsanitize=fuzzer-no-link -c {} -o $out/objects/$(echo {} | tr / _).o'
rm -f $out/libdata.a
ar rcs $out/libdata.a $out/objects/*.o
for format in "$@"; do
    # shellcheck disable=SC2086
    $compiler $flags -fsanitize=fuzzer-no-link "-DFUZZED=$format" -c tests/fuzz/data.cpp -o "$out/fuzz_$format.o"
    # shellcheck disable=SC2086
    clang++ $flags -fsanitize=fuzzer "$out/fuzz_$format.o" $out/libdata.a -lfmt -lspdlog -lz -lspng -lturbojpeg -lwebp -lisal -o "$out/fuzz_$format"
done
for format in "$@"; do
    mkdir -p "$out/$format"
    SPDLOG_LEVEL=off "$out/fuzz_$format" -max_total_time="$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=1024 \
        -artifact_prefix="$out/" -print_final_stats=1 "$out/$format" "tests/fuzz/seeds/$format" >"$out/$format.log" 2>&1 || {
        tail -n 40 "$out/$format.log"
        exit 1
    }
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$out/$format.log")
    echo "$format: $runs inputs in $seconds s, nothing found"
done
