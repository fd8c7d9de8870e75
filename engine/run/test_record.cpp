#include "engine/run/test_record.h"

#include "engine/run/read_metrics.h"

#include <algorithm>
#include <system_error>

namespace towers {

std::optional<double> TestedStep::value(const Metric& metric) const {
    const auto found = metrics.find(metric.name);
    return found != metrics.end() ? std::optional(found->second) : std::nullopt;
}

TestRecord TestRecord::read(const std::filesystem::path& metrics, std::uint64_t last) {
    TestRecord record;
    std::error_code error;
    if (!std::filesystem::exists(metrics, error)) return record;
    for (const TestedStep& pass : read_tests(metrics))
        if (pass.step <= last) record.add(pass);
    return record;
}

const TestedStep* TestRecord::find(std::uint64_t step) const& {
    const auto found = std::ranges::find(passes_, step, &TestedStep::step);
    return found != passes_.end() ? &*found : nullptr;
}

const TestedStep* TestRecord::best(const Metric& metric) const& {
    const TestedStep* found = nullptr;
    for (const TestedStep& pass : passes_) {
        const std::optional<double> value = pass.value(metric);
        if (value && (found == nullptr || metric.is_better(*value, *found->value(metric)))) found = &pass;
    }
    return found;
}

std::uint64_t TestRecord::since_best(const Metric& metric) const {
    const TestedStep* const found = best(metric);
    return found != nullptr ? std::uint64_t(&passes_.back() - found) : 0;
}

} // namespace towers
