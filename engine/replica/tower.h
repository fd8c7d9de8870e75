// One replica of the model on one device. A step of it, after take() has given it a share of the examples:
//
//   prepare()               writes the numbers and the examples for the device
//   stage()                 copies the examples' images to staging memory, if the device does not hold them
//   submit_from(0)          submits the segments, up to one that exchanges follow
//   wait() for each segment    after one that exchanges follow, the host merges their lists, then
//   submit_from() results()               when the last segment has finished
//
// While the device computes, prefetch() may bring the next step's images. If can_go_ahead(), the next step
// may be prepared, staged and submitted too; then finish_earlier() waits for the step before it.
//
// With several towers, gradients leave and parameters come back meanwhile, bucket by bucket:
//
//   wait_for_parameters()   after submit_from(0): until the parameters are there that the first segment reads
//   wait_for_bucket()       after wait() for the segment that completes it: its gradients are in staging
//   memory upload()                when its new parameters are in staging memory, for segments submitted
//   later
//
// One of several that has all examples (Share::alone) works like a lone tower:
//
//   load_state()            uploads the state from kept_state()
//   finish()                when the step has ended and kept_state() is the new state
#pragma once

#include "engine/execution/forward_pass.h"
#include "engine/execution/micro_batching.h"
#include "engine/execution/session.h"
#include "engine/execution/staged_images.h"
#include "engine/reduce/exchange.h"
#include "engine/step/network.h"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace towers {

/// Plans a step with this share that computes at most `most` examples at once. All plans of a Planner have
/// the same variables and, with several towers, buckets.
using Planner = std::function<TrainingPlan(const Share& share, unsigned most)>;

/// Plans a forward pass over this many test examples at once; see plan_evaluation().
using TestPlanner = std::function<Plan(unsigned batch)>;

/// The examples of test passes.
struct TestData {
    std::shared_ptr<const DataSource> source;
    bool streamed;    ///< else they stay on the device, and the source is let go once it has them
    unsigned readers; ///< see StreamedData
    TestPlanner plan;
    EvaluatedHead head;
};

/// One thread at a time uses a tower. A tower owns its device.
class Tower {
public:
    /// Takes a first share, which is not 0, and brings all images to the device. `images`: null if they come
    /// with each step, as NetworkSpec::staged says.
    Tower(std::unique_ptr<Device> device, const DataSource* images, Planner plan, const Share& share,
          Splitting splitting = {});

    const DeviceInfo& info() const { return device_->info(); }
    /// The memory that the tower holds for all shares: the data set, the gradients and, if it is a lone
    /// tower, the state.
    const Session& session() const { return session_; }
    /// The bytes that the tower uses of its device's memory.
    std::uint64_t memory() const;

    /// Sets the share of the following steps; an empty one makes the tower idle. Makes new recordings unless
    /// the tower had this share recently; session() keeps its contents. Divides a share that does not fit
    /// into memory into micro-batches. Throws OutOfMemory if not even the smallest micro-batch fits; the
    /// tower is then idle and can take another share.
    void take(const Share& share);
    unsigned share() const { return share_.examples; }
    /// The current share as take() got it.
    const Share& taken() const { return share_; }
    /// The plan of a step with the current share, which is not empty, as take() made recordings of it.
    TrainingPlan plan() const { return plan_(share_, program_->at_once.most); }
    /// Makes new recordings for the current share, because the device's choices have changed.
    void record_again();
    AtOnce at_once() const { return program_ ? program_->at_once : AtOnce{}; } ///< for the current share
    double flops() const { return program_ ? program_->flops : 0; } ///< of a step with it; see flops_of()

    /// Whether a step can be submitted before the one before it has ended: that of a tower that updates the
    /// state, on a device that works by itself. A `cpu` device works only while a thread waits for it.
    bool can_go_ahead() const { return program_ && program_->steps.size() > 1; }

    /// Sets the numbers and the examples of the next step, share() of them. What follows is about this step.
    /// At most one earlier step may be in flight, and that only if can_go_ahead().
    void prepare(const StepNumbers& numbers, const Batch& examples);
    /// Copies the images that come with these examples to staging memory; submit_from(0) uploads them. Does
    /// nothing with those that are there already.
    void stage(const Batch& examples);
    /// Whether copies of the next step's images overlap with this step's kernels.
    bool can_prefetch() const { return program_ && program_->images && info().queues > 1; }
    /// Copies the next step's images, if there are any, to staging memory.
    void prefetch(const Batch& examples);
    /// Submits the upload of what prefetch() has copied.
    void upload_prefetched();

    /// A recording of the step, and what the host may do after it.
    struct Segment {
        Recording recording;
        Cut cut;
        std::vector<Exchange> exchanges; ///< to merge before the next segment is submitted
        Ticket ticket = 0;               ///< of its latest submission
    };
    /// Empty for an idle tower.
    std::span<const Segment> segments() const;
    /// Submits the segments from `first` on, up to the next exchange or the end. Each segment comes after the
    /// uploads of the parameters that it needs; after it come the downloads of the gradients that it
    /// completes. The update of a tower that takes steps alone waits for the copy of the state before it, and
    /// another copy follows it.
    void submit_from(std::size_t first);
    void wait(std::size_t segment);
    /// Waits for the step that was prepared last, or before the last one. Returns its results.
    StepResults finish();
    StepResults finish_earlier();
    /// The results of the finished step; all zero for an idle tower.
    StepResults results() const;

    // Of several towers
    std::span<const ArenaRange> buckets() const { return buckets_; }
    /// Staging memory in which a step leaves gradients and finds parameters, laid out as StateLayout's
    /// variables. The addresses never change.
    std::span<float> staged_gradients() const { return session_.host<float>(Arena::staged_gradients); }
    std::span<float> staged_parameters() const { return session_.host<float>(Arena::staged_parameters); }
    void wait_for_parameters();
    /// Afterwards the step no longer reads the bucket's parameters.
    void wait_for_bucket(std::size_t bucket);
    /// Call it between steps or after wait_for_bucket(), when nothing reads the old parameters any more.
    void upload(std::size_t bucket);
    /// Copies the frozen variables from staging memory to the device, and waits.
    void upload_frozen();

    // Of several towers, with Share::alone
    /// The state after the last finished step, in staging memory; valid until the next step has finished.
    /// Write to it what load_state() copies to the device.
    std::span<float> kept_state() const;
    void load_state();

    // Test passes, between steps
    /// Brings the test examples, unless they are streamed, to the device, where they stay beside those of the
    /// training. Call it once, while the tower has a share; computes fewer examples at once if memory does
    /// not suffice otherwise.
    void load_tests(TestData data);
    /// Fills each test example's prediction, and scores, with these variables, as many at once as in a step.
    /// It works in the memory of the steps' activations and gradients, and changes nothing that a later step
    /// reads. Returns false if it was told to end early.
    bool test(std::span<const float> variables, std::span<const Example> examples,
              const PredictionSpan& predictions, const PassWatch& watch);

private:
    /// The recordings of a step, with their own arenas for what the host writes before it and reads after it.
    struct RecordedStep {
        Session session;
        std::vector<Recording> micro_recordings; ///< see TrainingPlan::micro_plans
        std::vector<Segment> segments;
        std::size_t keeps = 0; ///< in which place of Arena::staged_state the state after it is kept
    };
    /// A step for one share, and its own small arenas.
    struct Program {
        Session session;
        std::vector<std::size_t> order;     ///< of micro_recordings, submitted before the first segment
        std::vector<RecordedStep> steps;    ///< taken in turn; two if one can be submitted ahead, else one
        std::size_t turn = 0;               ///< the one that was prepared last
        std::optional<StagedImages> images; ///< if images come with each step
        AtOnce at_once;
        double flops = 0;
        bool keeps = false;      ///< each step copies the state to staging memory
        std::uint64_t taken = 0; ///< the number of the latest take() that chose it

        RecordedStep& step() { return steps[turn]; }
    };
    /// A copy between staging memory and the device that each step repeats.
    struct Transfer {
        Recording recording; ///< null: nothing to copy
        Ticket ticket = 0;   ///< of its latest submission
    };
    struct Tests {
        TestData data;
        Session records; ///< if they stay on the device
    };
    Program make_program(const Share& share);
    ArenaBytes needs(const TrainingPlan& training) const;
    Program record(const TrainingPlan& training);
    RecordedStep record_step(const TrainingPlan& training, const Session& program) const;
    void hold(ArenaBytes bytes);
    void make_transfers(const TrainingPlan& training);
    void make_keeps();
    void keep_state();
    StepResults finish(const RecordedStep& step);
    bool halve(const AtOnce& refused, const OutOfMemory& error);
    bool save_scratch(const OutOfMemory& error);
    void free_steps();
    ForwardPass forward_pass(unsigned batch) const;
    void submit_micro_batches(std::vector<Ticket> after);

    std::unique_ptr<Device> device_; // outlives what it made
    Session session_{*device_};
    Planner plan_;
    MicroBatching micro_batching_;
    std::vector<ArenaRange> buckets_;
    std::vector<Transfer> uploads_, downloads_; ///< by bucket: of parameters, of gradients
    Transfer frozen_;                           ///< of the frozen variables
    std::array<Transfer, staged_states> keeps_; ///< of the state to the places of Arena::staged_state
    std::size_t place_ = 0;                     ///< in which the last submitted step leaves the state
    std::size_t kept_ = 0;                      ///< in which the last finished step has left it
    std::map<Share, Program> programs_;
    Program* program_ = nullptr; ///< null: idle
    Share share_;
    std::uint64_t takes_ = 0;
    std::optional<Tests> tests_;
};

} // namespace towers
