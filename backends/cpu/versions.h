// Compiles a function once for each x86-64 level; the program picks the processor's best at start-up. Not
// under the sanitizers, whose run-time has not started at that point. The function must not stand in an
// unnamed namespace: there clang 19 leaves out the templates that only it calls.
#pragma once

#if !defined(__x86_64__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FOR_EACH_PROCESSOR_LEVEL
#elif defined(__clang__) // which compiles the levels under their names, but up to version 19 never picks them
#define FOR_EACH_PROCESSOR_LEVEL __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_PROCESSOR_LEVEL __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
