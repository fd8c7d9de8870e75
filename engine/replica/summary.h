// What a summary needs of the towers: histograms made where the tensors are.
#pragma once

#include "engine/data/source.h"
#include "engine/execution/session.h"
#include "engine/step/histograms.h"

#include <functional>
#include <utility>
#include <vector>

namespace towers {

/// A summary in the making. A tower that hangs keeps its own reference.
struct SummaryPass {
    SummaryPass(HistogramPlan of_state, Dataset shown)
        : state(std::move(of_state)), images(std::move(shown)) {}

    HistogramPlan state;                                 ///< of variables and gradients
    Dataset images;                                      ///< of the examples
    std::vector<Example> examples;                       ///< with slots in `images`
    std::function<HistogramPlan(unsigned batch)> layers; ///< of a forward pass over so many examples
    std::vector<float> variables; ///< laid out as StateLayout says; empty: the tower's own
    std::vector<Histogram> found;
};

/// Runs a plan in a session, whose staging memory the histograms are then in.
std::vector<Histogram> make_histograms(const Session& session, const HistogramPlan& planned);

/// Makes those of the state from a session that has it, with the gradients.
void summarize_state(const Session& with_state, SummaryPass& pass);

/// Makes those of the layers, of up to `most` examples, or fewer if memory does not suffice, in the memory of
/// a tower's session. Overwrites its gradients if the pass has variables.
void summarize_layers(const Session& tower, unsigned most, SummaryPass& pass);

} // namespace towers
