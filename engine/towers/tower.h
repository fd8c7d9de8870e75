// One replica of the model on one device. A step of it, after take() has given it a share of the examples:
//
//   prepare()               writes the numbers and the examples for the device
//   submit_from(0)          submits the parts, up to one that exchanges follow
//   wait() for each part    after one that exchanges follow, the host merges their lists, then submit_from()
//   results()               when the last part has finished
//
// Of several towers the gradients leave and the parameters come back meanwhile, bucket by bucket:
//
//   wait_for_parameters()   after submit_from(0): until the parameters are there that the first part reads
//   wait_for_bucket()       after wait() for the part that completes it: its gradients are in staging memory
//   upload()                when its new parameters are in staging memory, for parts submitted later
#pragma once

#include "engine/step/network.h"
#include "engine/towers/exchange.h"
#include "engine/towers/micro_batching.h"
#include "engine/towers/session.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace towers {

/// Plans a step for a share of this many examples, of which at most so many are computed at once. All its
/// plans have the same variables and buckets.
using Planner = std::function<TrainingPlan(unsigned share, unsigned most)>;

/// One thread at a time uses a tower. A tower owns its device.
class Tower {
public:
    /// Takes a first share, which is not 0, and uploads the data set.
    Tower(std::unique_ptr<Device> device, const Dataset& data, Planner plan, unsigned share,
          Splitting splitting = {});

    const DeviceInfo& info() const { return device_->info(); }
    /// What the tower holds for all shares, such as the data set, the gradients and the state (of several
    /// towers: its parameters).
    const Session& session() const { return session_; }
    /// Bytes that the tower takes of what its device calls its memory.
    std::uint64_t memory() const;

    /// How many examples the next steps have: 0 for no part in them. Makes new recordings, unless it is one
    /// of the last few shares; session() keeps its contents. A share that does not fit into memory is
    /// computed in micro-batches. Throws OutOfMemory when the memory does not suffice for the smallest
    /// either; the tower is then idle and can take another share.
    void take(unsigned share);
    unsigned share() const { return share_; }
    AtOnce at_once() const { return program_ ? program_->at_once : AtOnce{}; } ///< of the present share
    double flops() const { return program_ ? program_->flops : 0; } ///< of a step with it; see flops_of()

    /// `examples`: share() of them.
    void prepare(const StepNumbers& numbers, std::span<const Example> examples);

    /// One recording of the step, and what the host may do when it has finished.
    struct Part {
        Recording recording;
        Cut cut;
        std::vector<Exchange> exchanges; ///< to be merged before the next part is submitted
        Ticket ticket = 0;               ///< of its latest submission
    };
    /// An idle tower has none.
    std::span<const Part> parts() const;
    /// Submits the parts from `first` on, up to the first that exchanges follow or to the last. Each waits
    /// for the parameters that it needs, and the gradients that it completes go to staging memory after it.
    void submit_from(std::size_t first);
    void wait(std::size_t part);
    /// Of the finished step; all zero from an idle tower.
    StepResults results() const;

    // Of several towers
    std::span<const ArenaRange> buckets() const { return buckets_; }
    /// Where a step leaves its gradients and finds its parameters, laid out as StateLayout's variables. They
    /// stay where they are.
    std::span<float> staged_gradients() const { return session_.host<float>(Arena::staged_gradients); }
    std::span<float> staged_parameters() const { return session_.host<float>(Arena::staged_parameters); }
    void wait_for_parameters();
    /// The step has also read the bucket's parameters then.
    void wait_for_bucket(std::size_t bucket);
    /// Between steps or after wait_for_bucket(): nothing reads the old parameters any more.
    void upload(std::size_t bucket);

private:
    /// A step for one share: its recordings, and the small arenas that they alone use.
    struct Program {
        Session session;
        std::vector<Recording> micro_recordings; ///< see TrainingPlan::micro_plans
        std::vector<std::size_t> order;          ///< of micro_recordings, before the first part
        std::vector<Part> parts;
        AtOnce at_once;
        double flops = 0;
        std::uint64_t taken = 0; ///< which take() was its latest
    };
    /// A copy between staging memory and the device that each step repeats.
    struct Transfer {
        Recording recording; ///< null: nothing to copy
        Ticket ticket = 0;   ///< of its latest submission
    };
    Program make_program(unsigned share);
    Program record(const TrainingPlan& training);
    void hold(ArenaBytes bytes);
    void make_transfers(const TrainingPlan& training);
    bool make_do(const AtOnce& refused, const OutOfMemory& error);
    void submit_micro_batches();

    std::unique_ptr<Device> device_; // outlives what it made
    Session session_{*device_};
    Planner plan_;
    MicroBatching micro_batching_;
    std::vector<ArenaRange> buckets_;
    std::vector<Transfer> uploads_, downloads_; ///< of each bucket: parameters, gradients
    std::map<unsigned, Program> programs_;      ///< by share
    Program* program_ = nullptr;                ///< null: idle
    unsigned share_ = 0;
    std::uint64_t takes_ = 0;
};

} // namespace towers
