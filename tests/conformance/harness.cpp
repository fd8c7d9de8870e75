#include "tests/conformance/harness.h"

#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <set>
#include <tuple>

namespace towers::test {
namespace {

constexpr std::uint32_t poison = 0x7fc0dead; // a quiet NaN, and absurd as a count or an index
constexpr std::size_t guard_words = 64;

} // namespace

Trial::Trial(Device& device, std::size_t capacity_bytes)
    : device_(device), memory_(device.allocate(capacity_bytes, Memory::device)),
      staging_(device.allocate(capacity_bytes, Memory::staging)), before_(guard_words, poison) {}

Tensor Trial::place(Role role, const void* values, std::size_t words, bool of_floats) {
    // An odd multiple of 16 bytes
    while (before_.size() % 8 != 4) before_.push_back(poison);
    const Tensor tensor{memory_.address() + before_.size() * 4, before_.size(), words};
    before_.resize(before_.size() + words, poison);
    if (values != nullptr) std::memcpy(before_.data() + tensor.offset, values, words * 4);
    before_.resize(before_.size() + guard_words, poison);
    REQUIRE(before_.size() * 4 <= memory_.bytes());
    tensors_.push_back({role, tensor, of_floats});
    return tensor;
}

Tensor Trial::input(std::span<const float> values) {
    return place(Role::input, values.data(), values.size(), true);
}
Tensor Trial::input(std::span<const std::uint32_t> values) {
    return place(Role::input, values.data(), values.size(), false);
}
Tensor Trial::output(std::size_t words) { return place(Role::output, nullptr, words, false); }
Tensor Trial::in_out(std::span<const float> values) {
    return place(Role::in_out, values.data(), values.size(), true);
}

std::vector<std::uint32_t> Trial::execute(const Launch& launch, unsigned most_groups, unsigned splits) {
    ConfigLimits limits = LimitConfigs::now(); // its tile of Winograd's stays
    limits.most_groups = most_groups;
    limits.splits = splits;
    const LimitConfigs limited(limits);
    const std::size_t bytes = before_.size() * 4;
    const auto host = staging_.host<std::uint32_t>().first(before_.size());
    std::copy(before_.begin(), before_.end(), host.begin());
    const BufferSlice there{&memory_, 0, bytes}, here{&staging_, 0, bytes};
    const Command commands[] = {Copy{here, there}, Barrier{}, launch, Barrier{}, Copy{there, here}};
    device_.run(commands);
    return {host.begin(), host.end()};
}

void Trial::run(const Launch& launch, unsigned splits) {
    INFO("kernel ", std::string(kernel_info(launch.kernel).name));
    after_ = execute(launch, 0, splits);
    check_untouched(after_);
    check_written(after_);
    if (device_.info().kind == DeviceKind::cpu) {
        if (const auto counted = counted_items(launch)) CHECK(*counted == items_of(launch));
        check_denormals(launch, splits);
    }
    for (const unsigned groups : {1u, 2u}) {
        INFO("with at most ", groups, " workgroups");
        const bool same_bits = execute(launch, groups, splits) == after_;
        CHECK(same_bits);
    }
}

void Trial::check_untouched(const std::vector<std::uint32_t>& after) const {
    std::size_t word = 0;
    const auto check_until = [&](std::size_t end, const std::string& where, std::size_t index) {
        for (; word < end; ++word) {
            if (after[word] == before_[word]) continue;
            INFO("wrote ", where, " tensor ", index, " of ", tensors_.size(), ", at word ",
                 std::ptrdiff_t(word) - std::ptrdiff_t(tensors_[index].tensor.offset), " of it");
            FAIL_CHECK("a kernel may write nothing but its outputs");
            word = end;
        }
    };
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
        const auto& [role, tensor, of_floats] = tensors_[i];
        check_until(tensor.offset, "before", i);
        if (role == Role::input)
            check_until(tensor.offset + tensor.words, "to input", i);
        else
            word = tensor.offset + tensor.words;
        check_until(word + guard_words, "after", i);
    }
}

void Trial::check_written(const std::vector<std::uint32_t>& after) const {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
        if (tensors_[i].role != Role::output) continue;
        const auto& tensor = tensors_[i].tensor;
        for (std::size_t word = 0; word < tensor.words; ++word) {
            if (after[tensor.offset + word] != poison) continue;
            INFO("tensor ", i, " of ", tensors_.size(), ", word ", word, " of ", tensor.words);
            FAIL_CHECK("an output element was not written, or was made of what lies beyond an input");
            break;
        }
    }
}

/// Where one of the tensors that the kernel reads is full of denormal numbers, it must compute what it
/// computes of zeros, if that is a number. What it only copies may stay denormal. A thread that computed with
/// denormal numbers would do so many times slower. Tries each tensor of each variant once.
void Trial::check_denormals(const Launch& launch, unsigned splits) {
    if (launch.kernel == Kernel::histogram) return; // counts numbers by their bits
    constexpr std::uint32_t denormal = 0x0005a5a5, infinite = 0x7f800000, sign = 0x80000000;
    static std::set<std::tuple<Kernel, std::string, std::size_t>> tried;
    const std::string variant = variant_of(device_, launch);
    const std::vector<std::uint32_t> initial = before_;
    for (std::size_t index = 0; index < tensors_.size(); ++index) {
        const auto& [role, words, of_floats] = tensors_[index];
        const auto& tensor = words; // clang 14 cannot capture a structured binding
        if (!of_floats || !tried.emplace(launch.kernel, variant, index).second) continue;
        INFO("word ", tensor.offset, " and the next ", tensor.words, " are denormal numbers");
        const auto results_of = [&](std::uint32_t magnitude) {
            before_ = initial;
            for (std::size_t i = 0; i < tensor.words; ++i)
                before_[tensor.offset + i] = magnitude | (i % 3 == 1 ? sign : 0);
            return execute(launch, 0, splits);
        };
        const std::vector<std::uint32_t> of_zeros = results_of(0), of_denormals = results_of(denormal);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < of_zeros.size(); ++i) {
            const std::uint32_t expected = of_zeros[i] & ~sign, found = of_denormals[i] & ~sign;
            wrong += expected < infinite && found != expected && !(expected == 0 && found == denormal);
        }
        CHECK(wrong == 0);
    }
    before_ = initial;
}

std::vector<std::uint32_t> Trial::words(const Tensor& tensor) const {
    const auto first = after_.begin() + std::ptrdiff_t(tensor.offset);
    return {first, first + std::ptrdiff_t(tensor.words)};
}

std::vector<float> Trial::floats(const Tensor& tensor) const {
    std::vector<float> values(tensor.words);
    std::memcpy(values.data(), after_.data() + tensor.offset, tensor.words * 4);
    return values;
}

double normalized_error(std::span<const float> measured, std::span<const double> expected) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (measured.size() != expected.size()) return infinity;
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const double m = measured[i], e = expected[i];
        if (std::isfinite(e) && std::isfinite(m)) {
            difference += (m - e) * (m - e);
            norm += e * e;
        } else if (!(m == e || (std::isnan(m) && std::isnan(e)))) {
            return infinity;
        }
    }
    return difference == 0 ? 0 : std::sqrt(difference / norm);
}

void check_near(const std::string& what, std::span<const float> measured, std::span<const double> expected,
                double tolerance) {
    INFO(what);
    CHECK(normalized_error(measured, expected) <= tolerance);
}

std::string variant_of(const Device& device, const Launch& launch) {
    for (const Candidate& candidate : device.candidates(launch))
        if (candidate.used) return std::string(candidate.variant);
    return {};
}

std::string ways_of(const Device& device, const Launch& launch) {
    std::string ways;
    for (const unsigned splits : {0u, 1u, 3u}) {
        ConfigLimits limits = LimitConfigs::now();
        limits.splits = splits;
        const LimitConfigs limited(limits);
        for (const auto& [variant, config, used] : device.candidates(launch))
            if (used)
                ways += fmt::format("{}, {} x {} x {}; ", to_string(variant, config), config.groups.x,
                                    config.groups.y, config.groups.z);
    }
    return ways;
}

std::vector<float> random_floats(std::size_t count, unsigned seed, float low, float high) {
    std::mt19937 random(seed);
    std::vector<float> values(count);
    for (float& value : values) value = low + (high - low) * float(random() >> 8) / 16777216.0f;
    return values;
}

std::vector<double> widen(std::span<const float> values) { return {values.begin(), values.end()}; }

std::vector<float> narrow(std::span<const double> values) {
    std::vector<float> narrowed;
    for (const double value : values) narrowed.push_back(float(value));
    return narrowed;
}

Device& EverySource::opened(const std::string& id, Sources sources) {
    auto& slot = opened_[{id, sources}];
    if (!slot) {
        OpenOptions options = open_options();
        options.sources = sources;
        slot = open_device(id, options);
    }
    return *slot;
}

std::vector<Kernel>& covered_kernels() {
    static std::vector<Kernel> covered;
    return covered;
}

} // namespace towers::test
