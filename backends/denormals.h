// Denormal numbers, with which processors compute many times slower, count as zero.
#pragma once

#include <cstdint>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace towers {

/// While it lives, the calling thread's arithmetic takes denormal numbers for zero and gives zero in their
/// place. A thread that is started meanwhile does so until it ends.
class FlushDenormals {
public:
    FlushDenormals() : before_(control()) { set_control(before_ | flushing); }
    FlushDenormals(const FlushDenormals&) = delete;
    FlushDenormals& operator=(const FlushDenormals&) = delete;
    ~FlushDenormals() { set_control(before_); }

    /// Makes the calling thread do so until it ends.
    static void from_now_on() { set_control(control() | flushing); }
    /// Whether the calling thread does so.
    static bool now() { return (control() & flushing) == flushing; }

private:
#if defined(__x86_64__)
    using Control = std::uint32_t;
    static constexpr Control flushing = 0x8040; // FTZ, of results, and DAZ, of operands
    static Control control() { return _mm_getcsr(); }
    static void set_control(Control control) { _mm_setcsr(control); }
#elif defined(__aarch64__)
    using Control = std::uint64_t;
    static constexpr Control flushing = std::uint64_t(1) << 24; // FZ, of results and operands
    static Control control() {
        Control control;
        asm volatile("mrs %0, fpcr" : "=r"(control));
        return control;
    }
    static void set_control(Control control) { asm volatile("msr fpcr, %0" : : "r"(control)); }
#else
    using Control = std::uint32_t;
    static constexpr Control flushing = 0; // an unknown processor computes as it does
    static Control control() { return 0; }
    static void set_control(Control) {}
#endif

    Control before_;
};

} // namespace towers
