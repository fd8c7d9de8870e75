#include "apps/towers/data_flags.h"

#include "apps/towers/flags.h"
#include "backends/error.h"

#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <string_view>
#include <system_error>
#include <utility>

namespace towers {

const char* const hold_out_help =
    "Keep this part of the pictures, such as 10%, for testing, if their folders or table "
    "have none for it (default: none)";
const char* const fold_help =
    "Keep one of several parts of the pictures for testing, such as 2/5: the second of five "
    "(default: none)";
const char* const skip_broken_help = "Leave broken pictures out instead of refusing them (default: off)";

std::string format_help() {
    return "Format of the data: " + format_keys() + " (default: the one that recognizes them)";
}

namespace {

double part_of(const std::string& percent) {
    double value = 0;
    const char* const end = percent.data() + percent.size();
    const auto [rest, error] = std::from_chars(percent.data(), end, value);
    const std::string_view unit(rest, std::size_t(end - rest));
    if (error == std::errc() && unit.empty() && value > 0 && value < 100)
        throw UsageError(fmt::format("--hold-out {}: give a percentage; write {:g}%", percent,
                                     value < 1 ? 100 * value : value));
    if (error != std::errc() || unit != "%" || !(value > 0 && value < 100))
        throw UsageError(
            fmt::format("--hold-out {}: give a percentage between 0 and 100, such as 10%", percent));
    return value / 100;
}

HeldOut range_of(const std::string& fold) {
    constexpr unsigned most = 1000;
    unsigned number = 0, count = 0;
    const char* const end = fold.data() + fold.size();
    const auto [slash, error] = std::from_chars(fold.data(), end, number);
    const auto [rest, error_of_count] = std::from_chars(slash == end ? end : slash + 1, end, count);
    if (error != std::errc() || error_of_count != std::errc() || *slash != '/' || rest != end || count < 2 ||
        count > most || number < 1 || number > count)
        throw UsageError(
            fmt::format("--fold {}: give the part for testing and the number of parts, up to {}, such as 2/5",
                        fold, most));
    return {double(number - 1) / count, double(number) / count};
}

} // namespace

HeldOut held_out_by(const std::string& percent, const std::string& fold) {
    if (!percent.empty() && !fold.empty())
        throw UsageError("--hold-out and --fold both say what to test on; give one of them");
    if (!percent.empty()) return {0, part_of(percent)};
    return fold.empty() ? HeldOut{} : range_of(fold);
}

DataRequest SourceFlags::request(Split split) const {
    DataRequest request{.source = source, .split = split, .seed = seed};
    request.format = format;
    request.held_out = held_out_by(hold_out, fold);
    request.skip_broken = skip_broken;
    return request;
}

void add_source(CLI::App& command, SourceFlags& flags) {
    command.add_option("source", flags.source, "Data set: " + data_help(false))->required();
    command.add_option("--format", flags.format, format_help());
    command.add_option("--hold-out", flags.hold_out, hold_out_help);
    command.add_option("--fold", flags.fold, fold_help);
    command.add_flag("--skip-broken", flags.skip_broken, skip_broken_help);
    // The same range as train's, so that train can use the same shapes.
    add_number(command, "--seed", flags.seed, "Seed for the drawn shapes and whatever else is drawn")
        ->capture_default_str();
}

bool is_gone(const std::string& source) {
    const std::string path = without_options(source);
    std::error_code error;
    return !path.empty() && is_path(source) && !is_pattern(path) && !std::filesystem::exists(path, error);
}

void check_still_there(const std::string& source, const char* flag) {
    if (is_gone(source))
        throw InputError(fmt::format(
            "{}, which the run used, is not there any more; give its new place with {}", source, flag));
}

DataRequest data_request(const TrainSettings& settings, Split split, std::uint64_t seed,
                         std::vector<std::string> trained) {
    const bool apart = split == Split::test && !settings.test_data.empty();
    DataRequest request{.source = apart ? settings.test_data : settings.data, .split = split, .seed = seed};
    request.whole = apart;
    request.format = settings.format;
    if (!apart) request.held_out = held_out_by(settings.hold_out, settings.fold);
    request.skip_broken = settings.skip_broken;
    request.trained = std::move(trained);
    return request;
}

} // namespace towers
