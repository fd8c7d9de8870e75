#include "apps/towers/common_flags.h"

#include "apps/towers/flags.h"
#include "backends/error.h"
#include "engine/files/output.h"
#include "engine/recipes/recipe.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <spdlog/spdlog.h>

namespace towers {
namespace {

Precision parse_precision(const std::string& name) {
    const std::optional<Precision> found = precision_of(name);
    if (!found) throw UsageError(fmt::format("--precision '{}': give {}", name, precision_words()));
    return *found;
}

} // namespace

std::string precision_words() {
    std::vector<std::string_view> names;
    for (const Precision each : all_precisions) names.push_back(name_of(each));
    const std::string_view last = names.back();
    names.pop_back();
    return fmt::format("{} or {}", fmt::join(names, ", "), last);
}

std::FILE* text_stream(std::initializer_list<std::string> files) {
    return std::any_of(files.begin(), files.end(),
                       [](const std::string& file) { return is_standard_output(file); })
               ? stderr
               : stdout;
}

const char* const threads_help = "Number of threads of the CPU backend; 0 uses OMP_NUM_THREADS or, if "
                                 "that is not set, one thread per processor within the quota";

const char* const exact_products_help = "Let the CPU backend and GPUs compute "
                                        "convolutions without Winograd's method, which takes "
                                        "fewer multiplications and rounds more (default: off)";

const std::string precision_help = fmt::format(
    "What products of matrices may round their operands to where a device has units for it, which is faster: "
    "{}. Sums, parameters and all that lies in memory stay fp32",
    precision_words());

const char* const round_operands_help =
    "Let the cpu device round the operands of products to --precision, as units for it would, and "
    "multiply them in fp32, which is slow: shows what a precision does without its hardware (default: off)";

const char* const set_help = "Change a value of the recipe, such as optimizer.learning_rate=0.05, or take "
                             "it out: optimizer.momentum=; may be given several times";

const char* const recipe_help = "Recipe for model, data pipeline, optimizer and schedule: a TOML file, or a "
                                "built-in one's name ('towers recipe list' shows them)";

Recipe recipe_with(const std::string& name, const std::vector<std::string>& changes) {
    Recipe recipe = find_recipe(name, changes);
    for (const std::string& note : recipe.notes) spdlog::info("{}", note);
    return recipe;
}

CLI::Option* add_set(CLI::App& command, std::vector<std::string>& changes) {
    return command.add_option("--set", changes, set_help)->allow_extra_args(false)->type_name("KEY=VALUE");
}

void add_threads(CLI::App& command, unsigned& threads) {
    add_number(command, "--threads", threads, threads_help)->capture_default_str();
}

void add_exact_products(CLI::App& command, bool& exact_products) {
    command.add_flag("--exact-products", exact_products, exact_products_help);
}

void add_precision(CLI::App& command, PrecisionFlags& flags, const std::string& otherwise) {
    command.add_option("--precision", flags.precision,
                       fmt::format("{} (default: {})", precision_help, otherwise));
    // On its own, CLI11 gives an optional a value also where the flag is not given.
    command
        .add_flag_function(
            "--round-operands", [&flags](std::int64_t on) { flags.round_operands = on > 0; },
            round_operands_help)
        ->check(on_or_off());
}

void choose_precision(OpenOptions& open, const PrecisionFlags& flags, const PrecisionFlags& trained,
                      const Recipe& recipe) {
    const std::string& name = flags.precision.empty() ? trained.precision : flags.precision;
    open.precision = name.empty() ? recipe.precision : parse_precision(name);
    const bool rounds = open.precision != Precision::fp32;
    if (flags.round_operands.value_or(false) && !rounds)
        throw UsageError("--round-operands: products in fp32 round nothing; give --precision tf32, bf16 or "
                         "fp16 too");
    open.round_operands = rounds && flags.round_operands.value_or(trained.round_operands.value_or(false));
}

void check_precision(const PrecisionFlags& flags) {
    if (!flags.precision.empty()) parse_precision(flags.precision);
}

void check_threads(unsigned threads) {
    if (threads > most_cpu_threads)
        throw UsageError(fmt::format("--threads {}: give at most {}", threads, most_cpu_threads));
    if (threads == 0) {
        const char* const text = std::getenv("OMP_NUM_THREADS");
        if (text != nullptr && std::strtod(text, nullptr) > most_cpu_threads)
            throw UsageError(fmt::format("OMP_NUM_THREADS={}: give at most {}", text, most_cpu_threads));
        return;
    }
    if (const unsigned given = cpu_threads(threads); given < threads)
        spdlog::warn("--threads {}: OpenMP gives {}, so the CPU backend uses {}; check OMP_THREAD_LIMIT and "
                     "OMP_MAX_ACTIVE_LEVELS",
                     threads, given, given);
}

double device_timeout(double seconds) {
    if (!(seconds >= 0 && std::isfinite(seconds)))
        throw UsageError(fmt::format("--device-timeout {}: give a number of seconds of at least 0", seconds));
    return seconds > 0 ? seconds : std::numeric_limits<double>::infinity();
}

void add_device_flags(CLI::App& command, OpenOptions& options) {
    add_validate(command, options);
    options.timeout = default_timeout;
    command
        .add_option_function<double>(
            "--device-timeout", [&options](double seconds) { options.timeout = device_timeout(seconds); },
            "Seconds after which a GPU's driver that gives no answer has failed, ten times as many where it "
            "compiles or copies; 0 waits for ever")
        ->default_str(fmt::format("{}", default_timeout))
        ->type_name("FLOAT");
}

void add_validate(CLI::App& command, OpenOptions& options) {
    command.add_flag(
        "--validate", options.validate,
        "Run Vulkan under the Khronos validation layer; each of its messages counts as an error");
}

} // namespace towers
