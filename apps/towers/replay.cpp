#include "apps/towers/commands.h"
#include "apps/towers/common_flags.h"
#include "engine/shares/selection.h"
#include "engine/train/diverged.h"

#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <string>
#include <vector>

namespace towers {
namespace {

constexpr const char* about =
    R"(FILE: 'towers train' leaves it in the run's folder when a loss or gradient is infinite or NaN, and names
it in its message. It holds the step's state and examples; neither the run nor its data are needed.

Output: what was found when the step diverged, and a line for each device.
  diverges           whether the loss or a gradient is infinite or NaN on this device
  first tensor       the first that has such a number, and the operation that made it; '(before the step)':
                     a variable had it already
  not finite there   how many of the tensor's numbers are infinite or NaN
  the first          the first of them, and its index in the tensor
Devices that disagree point to a driver, or to numbers so large that rounding decides.

Exit code: 0 when every device has done the step, whether it diverges there or not; 1 when one could not, or
the file cannot be read; 2 when the command line is wrong or names a device that is not there.)";

struct ReplayFlags {
    std::string file, backend, towers;
    PrecisionFlags products;
    OpenOptions open;
};

/// The devices that training would use and, for comparison, the CPU.
std::vector<std::string> devices_of(const ReplayFlags& flags) {
    std::vector<std::string> towers = select_towers(flags.backend, flags.towers, flags.open);
    if (flags.backend.empty() && flags.towers.empty() && towers.back() != "cpu") towers.push_back("cpu");
    return towers;
}

void print_step(const DivergedStep& diverged, const OpenOptions& open) {
    const LoneStep& step = diverged.step;
    const std::string whose =
        step.batch.examples.size() == step.global_batch
            ? "the whole batch"
            : fmt::format("the share of tower_{} ({})", diverged.tower, diverged.device);
    fmt::print("step {} of {}, {} of {} examples: {}; learning rate {:g}, seed {}{}\n", step.before.step,
               diverged.recipe.name, step.batch.examples.size(), step.global_batch, whose, step.learning_rate,
               step.seed,
               open.precision == Precision::fp32 ? ""
                                                 : fmt::format(", {} products", name_of(open.precision)));
    if (diverged.found) fmt::print("when it diverged: {}\n\n", describe(*diverged.found));
}

/// Runs the step on each device and prints each result at once. Throws DeviceError if the only device fails;
/// otherwise returns how many failed.
std::size_t print_table(const DivergedStep& diverged, const ReplayFlags& flags,
                        const std::vector<std::string>& devices) {
    const auto print = [](const auto&... cells) {
        fmt::print("{:<10} {:<8}  {:<27} {:<27} {:<18} {}\n", cells...);
        std::fflush(stdout);
    };
    print("device", "diverges", "first tensor", "of operation", "not finite there", "the first");
    std::size_t failed = 0;
    for (const std::string& id : devices) {
        Replay found;
        try {
            found = replay(*open_device(id, flags.open), diverged.recipe, diverged.step);
        } catch (const DeviceError& error) {
            if (devices.size() == 1) throw;
            ++failed;
            fmt::print("{:<10} failed    {}\n", id, error.what());
            continue;
        }
        const auto& [first, diverges] = found;
        if (first)
            print(id, diverges ? "yes" : "no", first->tensor,
                  first->operation.empty() ? "(before the step)" : first->operation,
                  fmt::format("{} of {}", first->count, elements_of(first->shape)),
                  fmt::format("{} at [{}]", first->value, fmt::join(first->index, ", ")));
        else
            print(id, "no", "none", "", "", "");
    }
    return failed;
}

int run_replay(ReplayFlags& flags) {
    check_threads(flags.open.threads);
    check_precision(flags.products);
    const DivergedStep diverged = read_diverged(flags.file);
    const PrecisionFlags trained{std::string(name_of(diverged.precision)), diverged.round_operands};
    choose_precision(flags.open, flags.products, trained, diverged.recipe);
    const std::vector<std::string> devices = devices_of(flags);
    print_step(diverged, flags.open);
    const std::size_t failed = print_table(diverged, flags, devices);
    if (failed > 0)
        throw DeviceError(fmt::format("{} of {} devices could not do the step", failed, devices.size()));
    return 0;
}

} // namespace

void add_replay(CLI::App& app, Action& chosen) {
    CLI::App* const command = app.add_subcommand(
        "replay",
        "Do a step that diverged again, on any devices, and find the first tensor that is not finite");
    const auto flags = std::make_shared<ReplayFlags>();
    command->footer(about);
    command->add_option("file", flags->file, "The step: the diverged-<step>.safetensors that a run has left")
        ->type_name("FILE")
        ->required();
    command->add_option("--backend", flags->backend,
                        "Do the step on all devices of this backend: cuda, vulkan or cpu");
    command->add_option("--towers", flags->towers,
                        "Do the step on each of these devices, one after another, such as cpu,vulkan:0 "
                        "('towers devices' lists them; default: those that training would use, and the CPU)");
    add_threads(*command, flags->open.threads);
    add_exact_products(*command, flags->open.exact_products);
    add_precision(*command, flags->products, "as in the run");
    add_device_flags(*command, flags->open);
    command->callback([flags, &chosen] { chosen = [flags] { return run_replay(*flags); }; });
}

} // namespace towers
