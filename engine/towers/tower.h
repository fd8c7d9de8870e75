// One replica of the model on one device.
#pragma once

#include "backends/device.h"
#include "engine/data/feed.h"
#include "engine/step/network.h"
#include "engine/towers/exchange.h"

#include <array>
#include <climits>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace towers {

/// What a step reports.
struct StepResults {
    float total_loss,
        cross_entropy; ///< of one tower of several: its part of the global batch's mean, no decay
    bool finite;       ///< the loss and, where they are checked, the gradients
};

/// Plans a step for a share of this many examples, of which at most so many are computed at once. All its
/// plans have the same variables and buckets.
using Planner = std::function<TrainingPlan(unsigned share, unsigned most)>;

/// How a tower may split a share that is too large to be computed at once.
struct Splitting {
    unsigned group = 1;   ///< examples that stay together
    unsigned most = 0;    ///< examples at once, a group at least; 0: as many as fit into memory
    std::string obstacle; ///< why a share cannot be split, for the user; empty: it can
};

/// How a tower computes its share.
struct AtOnce {
    unsigned micro_batches = 1;
    unsigned most = 0;  ///< examples in one
    std::string reason; ///< why not all, for the user; empty when memory is not the reason
};

/// `2 micro-batches of up to 64 examples, because ...`; empty for one.
std::string to_string(const AtOnce& at_once);

/// One thread at a time uses a tower. A tower owns its device.
class Tower {
public:
    /// Opens nothing: takes the device and a first share, which is not 0, and has the feed load the device.
    Tower(std::unique_ptr<Device> device, Feed& feed, Planner plan, unsigned share, Splitting splitting = {});

    const DeviceInfo& info() const { return device_->info(); }
    std::span<const ArenaRange> buckets() const { return buckets_; }

    unsigned share() const { return share_; }
    /// How many examples the steps to come have: 0 for none of the step's work. Costs recordings, unless it
    /// is one of the last few shares; what the tower holds stays. A share that does not fit into memory is
    /// computed in micro-batches. Throws OutOfMemory when the memory does not suffice for the smallest
    /// either; the tower is then idle and can take another share.
    void take(unsigned share);
    /// Bytes that the tower takes of what its device calls its memory.
    std::uint64_t memory() const;
    /// Of a step with the present share; see flops_of().
    double flops() const { return program_ ? program_->flops : 0; }
    /// Of the present share.
    AtOnce at_once() const { return program_ ? program_->at_once : AtOnce{}; }

    /// The tower's part of the next step. `examples`: share() of them.
    void prepare(const StepNumbers& numbers, std::span<const Example> examples);

    /// One recording of the step, and what the host may do once it is finished.
    struct Part {
        Recording recording;
        Cut cut;
        std::vector<Exchange> exchanges; ///< to be merged before the next part is submitted
        Ticket ticket = 0;               ///< of its latest submission
    };
    /// None of an idle tower.
    std::span<const Part> parts() const;
    /// Submits the parts from `first` on, up to the first that exchanges follow or to the last. Each waits
    /// for the parameters that it needs, and the gradients that it completes go to staging behind it.
    void submit_from(std::size_t first);
    /// Waits until the parameters are there that the first part's kernels wait for.
    void wait_for_parameters();
    void wait(std::size_t part);
    /// Waits until a bucket of gradients, whose part has been submitted, is in staged_gradients() and the
    /// step has read the bucket's parameters.
    void wait_for_bucket(std::size_t bucket);
    /// Takes a bucket of parameters from staged_parameters() for the parts submitted from now on. Between
    /// steps or after wait_for_bucket(): nothing reads the old ones any more.
    void upload(std::size_t bucket);
    /// Of the finished step; all zero from an idle tower.
    StepResults results() const;

    /// Where a shared step leaves its gradients and finds the parameters, laid out as StateLayout's
    /// variables. They stay where they are.
    std::span<float> staged_gradients() const { return held(Arena::staged_gradients).host<float>(); }
    std::span<float> staged_parameters() const { return held(Arena::staged_parameters).host<float>(); }

    /// The whole state of a single tower, laid out as StateLayout says.
    void load(std::span<const float> state);
    void save(std::span<float> state);
    /// The gradients of the last step of a single tower.
    void save_gradients(std::span<float> gradients);

private:
    /// A step for one share: its recordings and the memory that they alone use.
    struct Program {
        std::array<Buffer, arena_count> arenas;
        std::vector<Recording> micro_recordings;
        std::vector<std::size_t> order; ///< of micro_recordings, before the first part
        std::vector<Part> parts;
        AtOnce at_once;
        double flops = 0;
        std::uint64_t taken = 0; ///< which take() was its latest
    };
    /// A copy between staging and the device that each step repeats.
    struct Transfer {
        Recording recording; ///< null: nothing to copy
        Ticket ticket = 0;   ///< of its latest submission
    };
    Program make_program(unsigned share);
    void make_transfers(const TrainingPlan& training);
    void submit_micro_batches();
    Program record(unsigned share, const AtOnce& at_once);
    AtOnce choose(unsigned share) const;
    std::uint64_t room() const;
    std::uint64_t bytes_of(const TrainingPlan& training) const;
    bool counts(Arena arena) const;
    void hold(const TrainingPlan& training);
    bool make_do(const AtOnce& failed, const OutOfMemory& error);
    const Buffer& held(Arena arena) const { return held_[std::size_t(arena)]; }

    std::unique_ptr<Device> device_; // outlives what it made
    Planner plan_;
    Splitting splitting_;
    unsigned most_ = UINT_MAX; ///< examples at once, since more were refused memory
    std::string refusal_;      ///< with the driver's words
    std::vector<ArenaRange> buckets_;
    std::vector<Transfer> uploads_, downloads_; ///< of each bucket: parameters, gradients
    std::array<Buffer, arena_count> held_; ///< what outlives a share, and the largest share's activations
    std::map<unsigned, Program> programs_; ///< by share
    Program* program_ = nullptr;           ///< null: idle
    unsigned share_ = 0;
    std::uint64_t takes_ = 0;
};

/// Buffers for every arena of a plan, with the records that the feed loads.
std::array<Buffer, arena_count> allocate_arenas(Device& device, const Plan& plan, Feed& feed);
/// Writes what a step reads into Arena::step: the numbers alone, or with the examples.
void write_numbers(const Buffer& step, const StepNumbers& numbers);
void write_step(const Buffer& step, const StepNumbers& numbers, std::span<const Example> examples);
/// What a step left in Arena::staged_results.
StepResults read_results(const Buffer& staged_results);
/// As Plan::bind() takes them.
std::array<const Buffer*, arena_count> pointers_to(const std::array<Buffer, arena_count>& arenas);

} // namespace towers
