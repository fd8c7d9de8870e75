#!/usr/bin/env python3
"""Shows that the tests on emulated cards catch mistakes in backends/cuda and in kernels: makes each of the mistakes
below in a copy of the file, compiles what the mutant's tests use of it, and runs them. They must fail, and pass without
the mistake.
Usage: mutants.py BUILD [--check | NAME...]
BUILD: a build folder of Ninja's with conformance_on_emulated_cuda. NAME: only these mutants. --check: only that the
files have the text of each mistake, and the program the tests that should notice.
Prints a line a mutant; the exit code is 1 if one survives all seeds."""
import fnmatch
import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from rebuild import rebuild, run, sources, target

seeds = ["1", "2", "3"]
# The file with the mistake, and what is compiled with it.
graph, backend, functions = [(f"backends/cuda/{name}.cpp", f"{name}.cpp")
                             for name in ("graph", "cuda_backend", "functions")]
lowering, order = [(f"backends/launch/{name}.cpp", f"{name}.cpp") for name in ("lowering", "order")]
gemm = "shaders/gemm_tile.h", "conv2d_*.cpp"
gemm_of_data = gemm[0], "conv2d_backward_data_*.cpp"
phases = "shaders/conv_phases.h", "conv2d_backward_data_quads_*.cpp"
gemm_slices, data_quads = [(f"shaders/{name}", phases[1])
                           for name in ("gemm_slices.h", "conv2d_backward_data_product.h")]
forward_bf16 = "conv2d_forward_fragments_bf16_*.cpp"
slices_of_fragments, gemm_fragments, fragments = [
    (f"shaders/{name}.h", forward_bf16) for name in ("gemm_slices", "gemm_fragments", "dialect/fragment_cuda")]
fragments_of_data = gemm_fragments[0], "conv2d_backward_data_fragments_tf32_*.cpp"
words_of_fragments = fragments[0], "conv2d_backward_weights_fragments_tf32_*.cpp"
gemm_in_parts, fragments_in_parts = [(path, "conv2d_forward_fragments_fp32_*.cpp") for path, _ in (gemm_fragments, fragments)]
dialect = "shaders/dialect/cuda.h", "kernels.cpp"
tiled_dialect = dialect[0], gemm_of_data[1]
winograd = "shaders/winograd.h", "kernels.cpp"
workgroup = "shaders/workgroup.h", "kernels.cpp"
columns = "shaders/column_sums.h", "kernels.cpp"
stages = "backends/launch/stages.cpp", "stages.cpp"
window_rows, pool, pool_gradient = [(f"shaders/{name}.comp", "kernels.cpp")
                                    for name in ("window_rows", "max_pool_forward", "max_pool_backward")]
# The smallest choices of tests that should notice, as doctest's arguments.
contract = "--source-file=*/contract/*"
clock = "--test-case=timestamps follow the clock*"
functions_differ = "--test-case=every kernel and tile has a function of its own*"
one_lost = "--test-case=a card that its driver took away*"
splits = "--test-case=sums that are split*"
reused = "--test-case=scratch memory is reused after each barrier*"
edges = "--test-case=a product touches nothing behind its tensors*"
convolutions = "--test-case=conv2d_backward_data*"
sums = "--test-case=sum_squares*"
row_sums = "--test-case=sum_partials*,batch_norm_moments*"
transforms = "--test-case=winograd_*"
strided = "--test-case=the gradient of strided images is right for any*"
work = "--test-case=a strided convolution's gradient multiplies*"
rows_of_windows = "--test-case=a convolution whose windows' rows*"
pools = "--test-case=max_pool_*"
by_fragments = "--test-case=a product by fragments rounds*"
long_fragments = "--test-case=neither rounded factors nor long sums*"
strange_fragments = "--test-case=NaN and infinity pass through products with rounded factors*"
of_workgroups = "--test-case=distort_images*,step_results*,gradient_norm*"

# name: (where, text, what takes its place, the tests). Between the words of a text may be any space and backslashes.
mutants = {
    "edges-after-barrier": (graph, "order_.barrier();", "", contract),
    "launch-without-edges": (graph, "after.data(), after.size(), &node)", "nullptr, 0, &node)", contract),
    "copy-without-edges": (graph, "after.data(), after.size(), at(copy.target)", "nullptr, 0, at(copy.target)",
                           contract),
    "record-without-edges": (graph, "after.data(), after.size(), recording_->timestamps",
                             "nullptr, 0, recording_->timestamps", contract),
    "timestamp-for-nothing": (graph, "before({.bytes = {}, .known = false})", "before({})", contract),
    "sum-before-product": (graph, "after = std::move(nodes);", "", splits),
    "first-sum-only": (graph, "last_[command].begin(), last_[command].end()",
                       "last_[command].begin(), last_[command].begin() + 1", splits),
    "shared-scratch": (lowering, "used += stages_of", "stages_of", splits),
    "barrier-keeps-scratch": (lowering, "used = 0; }", "}", reused),
    "scratch-without-edges": (lowering, "if (bytes > 0) footprint", "if (false) footprint", splits),
    "unknown-without-edges": (order, "if (!a.known || !b.known) return true;", "", contract),
    "all-known": (order, "footprint.known && launch.extents[i] > 0", "true", contract),
    "write-before-read": (order, "(one.written || other.written)", "one.written", contract),
    "read-before-write": (order, "(one.written || other.written)", "other.written", contract),
    "writes-in-any-order": (order, "(one.written || other.written)", "(one.written != other.written)", contract),
    "same-beginnings-only": (order, "one.begin < other.end && other.begin < one.end", "one.begin == other.begin",
                             contract),
    "first-byte-only": (order, "begin + launch.extents[i]", "begin + 1", contract),
    "sums-only-read": (order, "pointers[i] != Access::read", "pointers[i] == Access::write", contract),
    "copies-only-read": (order, "bytes(copy.target, true)", "bytes(copy.target, false)", contract),
    "implied-by-any": (order, "if (earlier.after[k]) after[k] = true;", "after[k] = true;", contract),
    "not-the-last": (order, "for (std::size_t i = before_barrier_; i-- > 0;)",
                     "for (std::size_t i = before_barrier_; i-- > 1;)", contract),
    "wrong-block-size": (graph, "kernel_info(launch.kernel).workgroup_size, 1, 1", "128, 1, 1", contract),
    "wrong-tile": (functions, "tiled == #name && tile->height == tall && tile->width == wide",
                   "tiled == #name && tile->height == tall && tile->width != wide", functions_differ),
    "no-wait-for-other-queue": (backend, "check(cudaStreamWaitEvent(stream, earlier->done.get(), 0));", ";", contract),
    "no-wait-for-zeros": (backend, "check(cudaStreamSynchronize(computing())); // other", "// other", contract),
    "no-zeros": (backend, "check(cudaMemsetAsync(pointer, 0, bytes, computing()));", "", contract),
    "no-zeros-on-host": (backend, "std::memset(pointer, 0, bytes);", "", contract),
    "wait-returns-at-once": (backend, "check(cudaEventSynchronize(submission.done.get()));", "(void)submission;", contract),
    "no-set-device": (backend, "check(cudaSetDevice(ordinal_));", "", contract),
    "other-device": (backend, "check(cudaSetDevice(ordinal_));", "check(cudaSetDevice(0));", one_lost),
    "event-in-use": (backend, "|| cudaEventQuery(lane.pending.front().done.get()) != cudaSuccess", "", contract),
    "event-of-wrong-stream": (backend, "check(cudaEventRecord(done.get(), stream));",
                              "check(cudaEventRecord(done.get(), computing()));", contract),
    "host-address": (backend, "check(cudaHostGetDevicePointer(&pointer, pointer, 0));", "", contract),
    "origin-not-awaited": (backend, "check(cudaEventSynchronize(next.get()));", "", clock),
    "finish-returns-at-once": (backend, "for (const Lane& lane : lanes_) cudaStreamSynchronize(lane.stream.get());",
                               "", contract),
    "no-first-barrier": (gemm_of_data, "barrier(); FOR_PARTLY", "FOR_PARTLY", convolutions),
    "no-second-barrier": (gemm_of_data, "barrier(); }", "}", convolutions),
    "row-too-far": (gemm, "k_a < end_k && first_m + i * SIDE + row < (M)", "k_a < end_k", edges),
    "column-too-far": (gemm, "k_b < end_k && first_n + j * SIDE + column < (N)", "k_b < end_k", edges),
    "store-too-far": (gemm, "if (first_m + i * SIDE + row < (M) &&", "if (", edges),
    "index-too-far": (dialect, "i < (count); i += gridDim.x * blockDim.x)",
                      "i <= (count); i += gridDim.x * blockDim.x)", "--test-case=draw_augmentations*,average_pool_*,max_pool_*"),
    "half-a-sum": (dialect, "uint distance = 16u; distance > 0u; distance /= 2u) x +=",
                   "uint distance = 8u; distance > 0u; distance /= 2u) x +=", sums),
    "part-of-a-warp": (dialect, "x += __shfl_xor_sync(0xffffffffu", "x += __shfl_xor_sync(0xffffu", sums),
    "first-tap": (phases, "phase.tap * dilation % stride != place % stride", "false", strided),
    "taps-apart": (phases, "phase.taps_apart * dilation % stride != 0u", "phase.taps_apart != stride", strided),
    "tap-too-many": (phases, "(kernel - phase.tap + phase.taps_apart - 1u) / phase.taps_apart",
                     "(kernel + phase.taps_apart - 1u) / phase.taps_apart", strided),
    "phase-unpadded": (phases, "const uint place = phase.pixel + padding;", "const uint place = phase.pixel;", strided),
    "pixel-too-many": (phases, "(length - phase.pixel + stride - 1u) / stride", "(length + stride - 1u) / stride",
                       strided),
    "wide-dilation": (phases, "phase.dilation = phase.taps_apart * dilation / stride;", "", strided),
    "weights-side-by-side": (data_quads, "tap.x * phase_x.taps_apart", "tap.x", strided),
    "place-in-phase": (data_quads, "phase_x.pixel + pixel.x * shape.stride_x", "pixel.x * shape.stride_x", strided),
    "all-tiles": (gemm_slices, "if (first_m >= rows) continue;", "", work),
    "all-taps": (data_quads, "phase_y.taps * phase_x.taps * out_group",
                 "p.shape.kernel_height * phase_x.taps * out_group", work),
    "slice-not-awaited": (slices_of_fragments, "KEEP(stage) barrier(); }", "KEEP(stage) }", by_fragments),
    "first-slice-not-awaited": (slices_of_fragments, "KEEP(0u) barrier();", "KEEP(0u)", by_fragments),
    "same-slice-again": (slices_of_fragments, "stage = 1u - stage;", "", by_fragments),
    "rows-of-another-matrix": (fragments, "(LANE_ROW + down * 8u) * row", "(LANE_ROW + across * 8u) * row", by_fragments),
    "another-lane's-row": (fragments, "#define LANE_ROW (SUBGROUP_LANE % 8u)", "#define LANE_ROW (SUBGROUP_LANE / 4u)",
                           by_fragments),
    "another-lane's-half": (fragments, "even ? half[2] : half[0], 1u", "even ? half[2] : half[0], 2u", by_fragments),
    "another-lane's-column": (fragments, "SUBGROUP_LANE % 4u / 2u * 4u", "SUBGROUP_LANE % 2u * 4u", by_fragments),
    "another-lane's-word": (words_of_fragments, "(is_a ? i / 2u : i % 2u) * 4u", "(is_a ? i % 2u : i / 2u) * 4u", by_fragments),
    "fragment-row-too-far": (gemm_fragments, "if (m < rows && n < (N))", "if (n < (N))", by_fragments),
    "fragment-column-too-far": (fragments_of_data, "if (m < rows && n < (N))", "if (m < rows)", by_fragments),
    "one-long-chain": (gemm_fragments, """FragmentSum of_slice = NO_SUM; UNROLL for (uint k = 0u; k < DEEP; ++k){ADD_PRODUCT(of_slice, k, j)}
                       sum[i * ACROSS + j] = plus(sum[i * ACROSS + j], of_slice);""",
                       "UNROLL for (uint k = 0u; k < DEEP; ++k){ADD_PRODUCT(sum[i * ACROSS + j], k, j)}", long_fragments),
    "tf32-truncated": (words_of_fragments, "(bits + 0xfffu + (bits >> 13u & 1u)) & ~0x1fffu", "bits & ~0x1fffu",
                       by_fragments),
    "tf32-loses-NaN": (words_of_fragments, "if ((bits & 0x7fffffffu) > 0x7f800000u) return bits | 0x00400000u;", "",
                       strange_fragments),
    "rest-left-out": (gemm_in_parts, "to = multiply_add(a[OPERAND(0u, k, 0u)], b[OPERAND(j, k, 1u)], to);", "", by_fragments),
    "infinity-times-no-rest": (fragments_in_parts, "fabsf(kept[h * 2u + c]) < 3.39e38f ? kept[h * 2u + c] : 0.0f",
                               "kept[h * 2u + c]", strange_fragments),
    "sums-overwritten": (workgroup, "barrier(); /* nobody", "/* nobody", of_workgroups),
    "sums-not-awaited": (workgroup, "sums[SUBGROUP_ID] = part; barrier();", "sums[SUBGROUP_ID] = part;", of_workgroups),
    "first-subgroup-only": (workgroup, "i < SUBGROUPS", "i < 1u", of_workgroups),
    "sums-before-they-are-set": (columns, "barrier(); for (uint rows", "for (uint rows", row_sums),
    "sums-of-the-step-before": (columns, "barrier(); rows = kept;", "rows = kept;", row_sums),
    "odd-row-left-out": (columns, "kept = (rows + 1u) / 2u", "kept = rows / 2u", row_sums),
    "constant-off": (winograd, "5.25f, -5.25f", "5.25f, -5.2f", transforms),
    "infinity-misplaced": (winograd, "j + 1u == results", "j + 2u == results", transforms),
    "border-is-image": (winograd, "corner.y + y < tiles.height", "corner.y + y <= tiles.height", transforms),
    "barrier-for-some": (tiled_dialect, "#define barrier() __syncthreads()",
                         "#define barrier() if (threadIdx.x != 7) __syncthreads()", convolutions),
    "row-goes-on": (window_rows, "in_window + c < window &&", "", "--test-case=window_rows*"),
    "beside-the-image": (window_rows, "&& in_row + c < length", "", "--test-case=window_rows*"),
    "rows-without-padding": (stages, ".pad_left = s.pad_left", ".pad_left = 0", rows_of_windows),
    "rows-without-stride": (stages, ".stride_x = s.stride_x", ".stride_x = 1", rows_of_windows),
    "padded-twice": (stages, "if (images_padded_) return;", "", rows_of_windows),
    "window-too-wide": (pool_gradient, "if (x_in_window >= p.shape.window_width) continue;", "", pools),
    "last-window-only": (pool_gradient, "last_row - min(last_row, rows_before)", "last_row", pools),
    "padding-is-image": (pool, "p.shape.pad_left - min(p.shape.pad_left, x)", "0u", pools),
    "no-right-end": (pool, "min(p.shape.window_width, p.shape.in_width + p.shape.pad_left - x)",
                     "p.shape.window_width", pools),
}


def mutated_text(name):
    (path, _), text, instead, _ = mutants[name]
    pattern = r"[\s\\]*".join(map(re.escape, text.split()))
    mutated, count = re.subn(pattern, lambda _: instead, (sources / path).read_text())
    if count != 1:
        sys.exit(f"{name}: {path} has {count} times: {text}")
    return mutated


def build_mutant(name, build, folder):
    path, compiled = mutants[name][0]
    return rebuild(build, folder, [compiled], changed=(path, mutated_text(name)))


def check(build):
    cases = run([build / target, "--list-test-cases"]).stdout.splitlines()
    for name, (*_, tests) in mutants.items():
        mutated_text(name)
        option, patterns = tests.split("=", 1)
        for pattern in patterns.split(",") if option == "--test-case" else []:
            if not fnmatch.filter(cases, pattern):
                sys.exit(f"{name}: there is no test {pattern}")
    print(f"{len(mutants)} mistakes have their place and their tests")


@functools.cache
def failure(program, tests, seed):
    """What the tests say when they fail, else nothing. A test that takes long has not failed."""
    environment = dict(os.environ, TOWERS_EMULATED_CUDA_SEED=seed, VK_DRIVER_FILES="/nonexistent")
    try:
        ended = run([program, "--abort-after=1", tests], env=environment, timeout=900)
    except subprocess.TimeoutExpired:
        return ""
    if ended.returncode == 0:
        return ""
    lines = ended.stdout.splitlines()
    said = [line for line in lines if "emulated CUDA: " in line or "ERROR:" in line]
    case = [line.split(":", 1)[1].strip() for line in lines if line.startswith("TEST CASE:")]
    return f"{said[0].strip()[:150] if said else f'exit code {ended.returncode}'} ({case[-1] if case else tests})"


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    if sys.argv[2:] == ["--check"]:
        return check(build)
    chosen = sys.argv[2:] or list(mutants)
    survivors = []
    for name in chosen:
        tests = mutants[name][-1]
        with tempfile.TemporaryDirectory() as folder:
            program = build_mutant(name, build, pathlib.Path(folder))
            for seed in seeds:
                if caught := failure(program, tests, seed):
                    break
        if not caught:
            survivors.append(name)
            print(f"{name}: SURVIVES seeds {', '.join(seeds)}: {tests}", flush=True)
        elif wrong := failure(build / target, tests, seed):
            sys.exit(f"{name}: seed {seed} fails without the mistake too: {wrong}")
        else:
            print(f"{name}: caught with seed {seed}: {caught}", flush=True)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} caught")
    sys.exit(1 if survivors else 0)


main()
