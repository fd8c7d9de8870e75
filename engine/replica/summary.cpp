#include "engine/replica/summary.h"

#include <algorithm>
#include <span>

namespace towers {
namespace {

bool is_of_state(Arena arena) { return arena == Arena::state || arena == Arena::gradients; }

void append(std::vector<Histogram>& to, std::vector<Histogram> more) {
    std::ranges::move(more, std::back_inserter(to));
}

} // namespace

std::vector<Histogram> make_histograms(const Session& session, const HistogramPlan& planned) {
    session.run(session.record(planned.plan));
    std::vector<Histogram> made;
    for (const std::string& name : planned.names) {
        const StagedHistogram staged = find_histogram(planned.plan, name);
        made.push_back(to_histogram(name, session.host<std::uint32_t>(staged.counts),
                                    session.host<float>(staged.partials)));
    }
    return made;
}

void summarize_state(const Session& with_state, SummaryPass& pass) {
    Session session(with_state, is_of_state);
    session.hold(pass.state.plan.bytes());
    append(pass.found, make_histograms(session, pass.state));
}

void summarize_layers(const Session& tower, unsigned most, SummaryPass& pass) {
    for (auto batch = unsigned(std::min<std::size_t>(most, pass.examples.size())); batch > 0; batch /= 2) {
        try {
            Session session(tower, is_transient);
            session.borrow(tower, pass.variables.empty() ? Arena::state : Arena::gradients, Arena::state);
            const HistogramPlan planned = pass.layers(batch);
            session.hold(session.needs(planned.plan));
            session.load(pass.images);
            if (!pass.variables.empty()) // the evaluation may lack the last of them
                session.upload(Arena::state, std::span<const float>(pass.variables)
                                                 .first(planned.plan.bytes(Arena::state) / sizeof(float)));
            session.write(std::span(pass.examples).first(batch));
            append(pass.found, make_histograms(session, planned));
            return;
        } catch (const OutOfMemory&) {
            if (batch == 1) throw;
        }
    }
}

} // namespace towers
