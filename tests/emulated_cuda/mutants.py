#!/usr/bin/env python3
"""Shows that the tests on emulated cards catch mistakes in backends/cuda and in kernels: makes each of the mistakes
below in a copy of the sources, builds and runs the tests, which must fail.
Usage: mutants.py BUILD [NAME...]
BUILD: a folder for the copy and its build, kept for the next time. NAME: only these mutants.
Prints a line a mutant; the exit code is 1 if one survives all seeds."""
import os
import pathlib
import shutil
import subprocess
import sys

sources = pathlib.Path(__file__).resolve().parents[2]
seeds = ["1", "2", "3"]
program = "tests/emulated_cuda/conformance_on_emulated_cuda"
graph, backend = "backends/cuda/graph.cpp", "backends/cuda/cuda_backend.cpp"
gemm, dialect = "shaders/gemm_tile.h", "shaders/dialect/cuda.h"

# name: (file, text, what takes its place, the tests' source files)
mutants = {
    "edges-after-barrier": (graph, "before_ = std::move(current_);", "before_.clear();", "*"),
    "copy-without-edges": (graph, "before_.data(), before_.size(), at(copy.target)",
                           "nullptr, 0, at(copy.target)", "*"),
    "record-without-edges": (graph, "graph_.get(), before_.data(), before_.size(),\n"
                             "                                          recording_->timestamps",
                             "graph_.get(), nullptr, 0,\n                                          "
                             "recording_->timestamps", "*"),
    "sum-before-product": (graph, "facts_).offer, {product});", "facts_).offer, before_);", "*"),
    "shared-scratch": (graph, "scratch_used_ += parts.scratch_bytes;", "", "*"),
    "barrier-keeps-scratch": (graph, "        scratch_used_ = 0;\n", "", "*"),
    "wrong-block-size": (graph, "kernel_info(launch.kernel).workgroup_size, 1, 1", "128, 1, 1", "*"),
    "wrong-tile": ("backends/cuda/functions.cpp", "tile->width == wide", "tile->width != wide", "*"),
    "no-wait-for-other-queue": (backend, "check(cudaStreamWaitEvent(stream, earlier->done.get(), 0));", ";", "*"),
    "no-wait-for-zeros": (backend, "check(cudaStreamSynchronize(computing())); // other", "// other", "*"),
    "no-zeros": (backend, "check(cudaMemsetAsync(pointer, 0, bytes, computing()));", "", "*"),
    "no-zeros-on-host": (backend, "std::memset(pointer, 0, bytes);", "", "*"),
    "wait-returns-at-once": (backend, "check(cudaEventSynchronize(awaited->done.get()));", "(void)awaited;", "*"),
    "no-set-device": (backend, "check(cudaSetDevice(ordinal_));", "", "*"),
    "other-device": (backend, "check(cudaSetDevice(ordinal_));", "check(cudaSetDevice(0));", "*"),
    "event-in-use": (backend, " || cudaEventQuery(lane.pending.front().done.get()) != cudaSuccess", "", "*"),
    "event-of-wrong-stream": (backend, "check(cudaEventRecord(done.get(), stream));",
                              "check(cudaEventRecord(done.get(), computing()));", "*"),
    "host-address": (backend, "check(cudaHostGetDevicePointer(&pointer, pointer, 0));", "", "*"),
    "origin-not-awaited": (backend, "check(cudaEventSynchronize(next.get()));", "", "*"),
    "finish-returns-at-once": (backend, "for (const Lane& lane : lanes_) cudaStreamSynchronize(lane.stream.get());",
                               "", "*"),
    "no-first-barrier": (gemm, "barrier();                                                                      "
                         "                 \\\n            FOR_PARTLY", "\\\n            FOR_PARTLY", "*conv2d*"),
    "no-second-barrier": (gemm, "            barrier();                                                         "
                          "                              \\\n        }", "        }", "*conv2d*"),
    "row-too-far": (gemm, "k_a < end_k && first_m + i * SIDE + row < (M)", "k_a < end_k", "*conv2d*"),
    "column-too-far": (gemm, "k_b < end_k && first_n + j * SIDE + column < (N)", "k_b < end_k", "*conv2d*"),
    "store-too-far": (gemm, "if (first_m + i * SIDE + row < (M) &&", "if (", "*conv2d*"),
    "index-too-far": (dialect, "i < (count); i += gridDim.x * blockDim.x)",
                      "i <= (count); i += gridDim.x * blockDim.x)", "*"),
    "half-a-sum": (dialect, "uint distance = 16u;", "uint distance = 8u;", "*"),
    "part-of-a-warp": (dialect, "__shfl_xor_sync(0xffffffffu", "__shfl_xor_sync(0xffffu", "*"),
    "barrier-for-some": (dialect, "inline __device__ void barrier() { __syncthreads(); }",
                         "inline __device__ void barrier() { if (threadIdx.x != 7) __syncthreads(); }", "*conv2d*"),
}


def run(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


def build(copy):
    return run(["cmake", "--build", str(copy / "build"), "--target", "conformance_on_emulated_cuda"])


def fails(copy, files, seed):
    """What the tests say when they fail, else nothing."""
    environment = dict(os.environ, TOWERS_EMULATED_CUDA_SEED=seed, VK_DRIVER_FILES="/nonexistent",
                       XDG_CACHE_HOME=str(copy / "cache"))
    ended = run([str(copy / "build" / program), "--abort-after=1", f"--source-file={files}"], env=environment,
                timeout=3000)
    if ended.returncode == 0:
        return ""
    lines = [line for line in ended.stdout.splitlines() if "emulated CUDA: " in line or "ERROR:" in line]
    return lines[0].strip()[:150] if lines else f"exit code {ended.returncode}"


def main():
    copy = pathlib.Path(sys.argv[1]).resolve()
    chosen = sys.argv[2:] or list(mutants)
    files = run(["git", "ls-files", "-z"], cwd=sources).stdout.split("\0")
    for name in filter(None, files):
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != (sources / name).read_bytes():
            shutil.copy2(sources / name, target)
    run(["cmake", "-S", copy, "-B", copy / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DTOWERS_CUDA=OFF",
         "-DBUILD_TESTING=ON", "-DTOWERS_EMULATED_CUDA=ON"], check=True)
    if (built := build(copy)).returncode != 0:
        sys.exit(built.stdout[-2000:])
    survivors = []
    for name in chosen:
        path, text, instead, tests = mutants[name]
        file = copy / path
        sound = file.read_text()
        if sound.count(text) != 1:
            sys.exit(f"{name}: {path} has {sound.count(text)} times: {text}")
        file.write_text(sound.replace(text, instead))
        try:
            built = build(copy)
            caught, seed = "", ""
            for seed in seeds if built.returncode == 0 else []:
                if caught := fails(copy, tests, seed):
                    break
        finally:
            file.write_text(sound)
        if built.returncode != 0:
            sys.exit(f"{name}: does not compile: {built.stdout[-2000:]}")
        if caught:
            print(f"{name}: caught with seed {seed}: {caught}", flush=True)
        else:
            survivors.append(name)
            print(f"{name}: SURVIVES seeds {', '.join(seeds)}", flush=True)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} caught")
    sys.exit(1 if survivors else 0)


main()
