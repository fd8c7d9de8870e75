// Runs one kernel on one device between guard words and compares its results with a reference.
#pragma once

#include "backends/device.h"
#include "tests/support/devices.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace towers::test {

/// Tolerance of the normalized error ||measured - expected|| / ||expected||. In float32 the longest sums
/// here, 1600 products, stay at a third of it. One wrong element in a hundred thousand is a thousand times
/// above it.
constexpr double default_tolerance = 2e-6;

/// A tensor on the device under test. Converts to any kind of pointer in a parameter block.
struct Tensor {
    std::uint64_t address = 0;
    std::size_t offset = 0, words = 0; ///< in the trial's memory

    template<class T>
    operator In<T>() const {
        return {reinterpret_cast<const T*>(address)};
    }
    template<class T>
    operator Out<T>() const {
        return {reinterpret_cast<T*>(address)};
    }
    template<class T>
    operator InOut<T>() const {
        return {reinterpret_cast<T*>(address)};
    }
};

/// Tensors for one kernel on one device. Guard words around each tensor and all outputs hold a NaN that
/// nothing computes. So reading past the end of a tensor spoils the result; writing there or to an input
/// shows, and so does an element left unwritten. Addresses are 16-byte aligned and no better: a kernel may
/// rely on no more.
class Trial {
public:
    explicit Trial(Device& device, std::size_t capacity_bytes = std::size_t(4) << 20);

    Tensor input(std::span<const float> values);
    Tensor input(std::span<const std::uint32_t> values);
    Tensor output(std::size_t words);
    Tensor in_out(std::span<const float> values);

    /// Runs the launch as the device does, then with at most one workgroup and two, each time from
    /// the initial values. All runs must leave the same bits and touch only outputs. On the host, the source
    /// must count as many items as kernels.def says, and denormal numbers count as zero. `splits`: as in
    /// ConfigLimits.
    void run(const Launch& launch, unsigned splits = 0);

    std::vector<float> floats(const Tensor& tensor) const;
    std::vector<std::uint32_t> words(const Tensor& tensor) const;

private:
    enum class Role { input, output, in_out };
    struct Placed {
        Role role;
        Tensor tensor;
        bool of_floats;
    };

    Tensor place(Role role, const void* values, std::size_t words, bool of_floats);
    std::vector<std::uint32_t> execute(const Launch& launch, unsigned most_groups, unsigned splits);
    void check_untouched(const std::vector<std::uint32_t>& after) const;
    void check_written(const std::vector<std::uint32_t>& after) const;
    void check_denormals(const Launch& launch, unsigned splits);

    Device& device_;
    Buffer memory_, staging_;
    std::vector<Placed> tensors_;
    std::vector<std::uint32_t> before_, after_;
};

/// The items that the kernel's source counts in FOR_RANGE or FOR_SUBGROUPS. Nothing of a tiled kernel, and
/// where the source decides to do nothing, by what it reads: the launch's pointers must be the host's.
std::optional<std::uint64_t> counted_items(const Launch& launch);

/// ||measured - expected|| / ||expected|| over the finite elements of `expected`. Infinite if the two differ
/// in length or in which elements are NaN or infinite, or if they differ at all and `expected` is all zero.
double normalized_error(std::span<const float> measured, std::span<const double> expected);

/// `what` names the tensor in the message. If you override the tolerance, say why in a comment.
void check_near(const std::string& what, std::span<const float> measured, std::span<const double> expected,
                double tolerance = default_tolerance);

/// The name of the variant with which the device would run the launch; empty if it cannot.
std::string variant_of(const Device& device, const Launch& launch);
/// How the device would run the launch, whatever the tests' limits on its parts: variant, tile, parts,
/// workgroups.
std::string ways_of(const Device& device, const Launch& launch);

/// Uniform in [low, high).
std::vector<float> random_floats(std::size_t count, unsigned seed, float low = -1.0f, float high = 1.0f);

/// Convert between the devices' float32 and the references' double.
std::vector<double> widen(std::span<const float> values);
std::vector<float> narrow(std::span<const double> values);

template<class Function>
void on_every_device(Function function) {
    for (const std::string& id : device_ids()) {
        INFO("on ", id);
        function(device(id));
    }
}

/// For kernels with several variants on GPUs: also runs, on each, those that serve other cards or other
/// shapes, unless they would run the launch as one before.
class EverySource {
public:
    template<class Function>
    void run(const Launch& launch, Function function) {
        for (const std::string& id : device_ids()) {
            const DeviceKind kind = device(id).info().kind;
            INFO("on ", id);
            std::set<std::string> ways{ways_of(device(id), launch)};
            function(device(id));
            if (kind == DeviceKind::cpu) continue;
            for (const Sources sources : {Sources::cards, Sources::shared}) {
                if (sources == Sources::cards && kind != DeviceKind::software) continue;
                if (!ways.insert(ways_of(opened(id, sources), launch)).second) continue;
                INFO(std::string(sources == Sources::cards ? "as on a card" : "by the shared text"));
                function(opened(id, sources));
            }
        }
    }

    /// With the sources that devices have for any launch of a kernel.
    template<class Function>
    void run(Function function) {
        for (const std::string& id : device_ids()) {
            INFO("on ", id);
            function(device(id));
            if (device(id).info().kind != DeviceKind::software) continue;
            INFO("as on a card");
            function(opened(id, Sources::cards));
        }
    }

private:
    Device& opened(const std::string& id, Sources sources);
    std::map<std::pair<std::string, Sources>, std::unique_ptr<Device>> opened_;
};

/// Kernels that have their own test. kernels.cpp compares them with the list of all kernels.
std::vector<Kernel>& covered_kernels();
struct Covered {
    explicit Covered(Kernel kernel) { covered_kernels().push_back(kernel); }
};

} // namespace towers::test

/// The main test of a kernel: its name, and what a user would lose if it failed.
#define KERNEL_TEST(kernel, loss)                                                                            \
    static const ::towers::test::Covered covered_##kernel{::towers::Kernel::kernel};                         \
    TEST_CASE(#kernel ": " loss)
