#include "engine/run/test_record.h"

#include "engine/run/read_metrics.h"

#include <algorithm>
#include <system_error>

namespace towers {

TestRecord TestRecord::read(const std::filesystem::path& metrics, std::uint64_t last) {
    TestRecord record;
    std::error_code error;
    if (!std::filesystem::exists(metrics, error)) return record;
    for (const TestedStep& pass : read_tests(metrics))
        if (pass.step <= last) record.add(pass);
    return record;
}

const TestedStep* TestRecord::find(std::uint64_t step) const {
    const auto found = std::ranges::find(passes_, step, &TestedStep::step);
    return found != passes_.end() ? &*found : nullptr;
}

const TestedStep* TestRecord::best() const {
    const auto found = std::ranges::max_element(passes_, {}, &TestedStep::accuracy); // the first of equals
    return found != passes_.end() ? &*found : nullptr;
}

std::uint64_t TestRecord::since_best() const {
    const TestedStep* const found = best();
    return found != nullptr ? std::uint64_t(&passes_.back() - found) : 0;
}

} // namespace towers
