// The measurements of `towers bench` as data. Names contain the units; every figure is a median over
// repetitions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace towers {

/// One figure's median and range over all repetitions.
struct Spread {
    double median = 0, min = 0, max = 0;
};
/// These throw std::logic_error if there are no values.
Spread spread_of(std::vector<double> values);
double median_of(std::vector<double> values);

/// Where and when the report was made.
struct BenchMachine {
    std::string processor, system, kernel;
    unsigned processors = 0; ///< that this process may use
    std::uint64_t memory_bytes = 0;
    double load_average = 0; ///< of the last minute: shows other work on the machine
};

/// What was measured. Reports are comparable if recipe, batch, threads, validate and what products round are
/// equal.
struct BenchSettings {
    std::string recipe;            ///< with its changes
    unsigned batch = 0;            ///< examples per tower and step
    unsigned repetitions = 0;      ///< of every measurement, one device after another
    std::optional<unsigned> steps; ///< per repetition; absent: as many as fit into `seconds`
    double seconds = 0;
    std::optional<unsigned> warm_up; ///< steps before the first measurement; absent: by time
    unsigned threads = 0;            ///< of the CPU backend
    bool validate = false;
    std::optional<std::string> precision; ///< of products; absent, in an early version's report: fp32
    std::optional<bool> round_operands;   ///< see OpenOptions; absent likewise: no
};

/// One launch or copy of the step, timed alone on the device's clock.
struct KernelFigures {
    std::string name;                   ///< layer and role: `conv2 forward`
    std::string kernel;                 ///< as shaders/kernels.def calls it, or `copy`
    std::optional<std::string> variant; ///< with which the device runs it; absent: it does not tell
    Spread time_us;
    double share = 0;             ///< of the sum over all kernels
    double flops = 0, bytes = 0;  ///< needed by the algorithm, see cost_of()
    std::optional<double> gflops; ///< per second; absent where flops do not count
    double gb_per_s = 0;
};

/// Copies between staging and device memory.
struct CopyFigures {
    std::string direction; ///< `to_device` or `from_device`
    std::uint64_t bytes = 0;
    Spread gb_per_s;                       ///< of the host's time from submission to completion
    std::optional<Spread> device_gb_per_s; ///< of the device's own time
};

/// How the time of a device's step depends on its batch: fixed + per_example * examples.
struct LoadFigures {
    unsigned batch = 0; ///< batch size of a second measurement
    Spread step_us;     ///< with that batch size
    double fixed_us = 0, per_example_us = 0;
};

/// What a part of the multiplications of a step round their operands to; see OperandParts.
struct OperandFigures {
    std::string operands;
    double part = 0;
};

/// One device alone.
struct DeviceFigures {
    std::string id, name, vendor, driver, kind;
    std::uint64_t steps = 0; ///< per repetition
    Spread examples_per_s, step_us;
    Spread host_us;       ///< per step, without waiting for the device
    Spread empty_step_us; ///< of an empty recording, from submission to completion
    std::uint64_t device_memory_bytes = 0, staging_memory_bytes = 0; ///< of the tower's arenas
    std::vector<KernelFigures> kernels; ///< in the order of the step; empty if the device has no clock
    std::optional<Spread> kernels_us;   ///< sum over the kernels
    std::optional<double> timestamp_us; ///< between two adjacent timestamps
    std::vector<CopyFigures> copies;
    std::optional<LoadFigures> load;                            ///< measured if a proposal needs it
    std::optional<std::vector<OperandFigures>> multiplications; ///< absent in an early version's report
};

/// A run with some of the towers.
struct SubsetFigures {
    std::vector<std::string> towers;
    std::vector<unsigned> shares; ///< examples of each, none 0
    double predicted_step_us = 0; ///< from measurements of each device alone
    double predicted_examples_per_s = 0;
    double predicted_share_of_sum = 0;                           ///< as TogetherFigures::share_of_sum
    std::optional<Spread> examples_per_s, step_us, share_of_sum; ///< absent when not measured
    std::optional<std::string> refusal; ///< a device's reason why it could not be measured
};

/// All devices in one run, their gradients averaged.
struct TogetherFigures {
    std::vector<std::string> towers;
    std::vector<unsigned> shares; ///< examples of each tower
    std::uint64_t steps = 0;      ///< per repetition
    Spread examples_per_s, step_us;
    Spread host_us;      ///< of the calling thread per step, without waiting for towers
    Spread share_of_sum; ///< of the sum of the solo rates; a device with two towers counts once
    double split_limit_examples_per_s = 0;   ///< rate of all at which one device needs its whole solo rate
    std::optional<Spread> beyond_slowest_us; ///< of a step, after its slowest tower's own time
    std::optional<SubsetFigures> proposal;   ///< the towers and shares with the best prediction
    std::optional<std::vector<SubsetFigures>> subsets; ///< if asked for, the fastest first
};

/// The host reducer's part of a step, with the update, compared with memcpy() of as many bytes by as many
/// threads. Both are repeated, so a large cache may hold all of their memory.
struct AveragingFigures {
    unsigned towers = 0;
    std::uint64_t bytes = 0; ///< of one tower's gradients
    Spread gb_per_s;         ///< read and written
    Spread memcpy_gb_per_s;
    Spread ratio; ///< above 1 if averaging is faster
};

/// A measurement that failed.
struct LeftOut {
    std::string what;   ///< a device's id, or `together`
    std::string reason; ///< in the device's words
};

struct BenchReport {
    static constexpr int schema = 1;  ///< of the JSON; grows if readers of the earlier one would fail
    std::string towers_version, date; ///< the date in UTC, ISO 8601
    BenchMachine machine;
    BenchSettings settings;
    std::vector<DeviceFigures> devices;
    std::optional<TogetherFigures> together;
    std::optional<std::vector<LeftOut>> left_out; ///< absent: nothing failed
    std::vector<AveragingFigures> averaging;
    std::uint64_t peak_memory_bytes = 0; ///< resident memory of the process, with all devices open
};
} // namespace towers
