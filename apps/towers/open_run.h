// A run with all that it needs open, and what `train` says of it beside its log.
#pragma once

#include "apps/towers/resolved_run.h"
#include "engine/train/initial.h"
#include "engine/train/loop.h"

#include <optional>
#include <string>

namespace towers {

/// A run with all that it needs open.
struct OpenRun {
    const ResolvedRun& resolved;
    const std::optional<Past>& past;
    TrainSettings settings; ///< the resolved ones with the number of steps
    LoopOptions loop;
    Trainer& trainer;
    RunDirectory& directory;
    bool has_tests; ///< there are sound test examples
};

/// Warns if the data lacks some of the network's classes, and says how a new run gets a network without them.
void compare_classes(const Recipe& recipe, const DataInfo& data, const std::string& source, bool resumes);

/// Says which layers do not begin as in the file of --init.
void print_new_layers(const Beginning& beginning);

/// Says how much of the model does not learn.
void print_frozen(const Model& model);

/// `; 81.2 % of the multiplications in bf16`: what the products of a tower with examples round. "" if the run
/// is in fp32 or the tower of another process.
std::string operands_of(const Trainer& trainer, std::size_t tower);

/// Prints each tower's device and its share of the next step.
void print_towers(const Trainer& trainer);

/// Why test passes have ended the run.
std::string why_early(const TestRecord& record, const Metric& by);

/// The last lines: where the state is and what to do with it.
void report_end(const OpenRun& run, const std::string& saved, Ending ending);

/// Whether the checkpoint has as many steps as are asked for, or test passes have ended the run; says so.
bool is_done(const OpenRun& run);

} // namespace towers
