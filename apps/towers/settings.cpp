#include "apps/towers/settings.h"

#include "apps/towers/common_flags.h"
#include "apps/towers/data_flags.h"
#include "apps/towers/flags.h"
#include "backends/error.h"
#include "backends/files/file.h"
#include "engine/config/parse.h"
#include "engine/files/output.h"
#include "engine/recipes/recipe.h"
#include "engine/train/loop.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>
#include <sstream>
#include <toml++/toml.h>
#include <type_traits>
#include <vector>

namespace towers {
namespace {

/// Calls visitor(name, field, which, help) for every setting, where `field` is a pointer to the member.
/// Flags, reading and writing all use this one list.
template<class Visitor>
void for_each_setting(const Visitor& visitor) {
    using S = TrainSettings;
    constexpr Settings training = Settings::of_training, other = Settings::all;
    visitor("recipe", &S::recipe, training, recipe_help);
    visitor("set", &S::set, training, set_help);
    visitor("data", &S::data, training, ("Training data: " + data_help(true)).c_str());
    visitor("test-data", &S::test_data, training, "Test data, if they are not where --data is");
    visitor("format", &S::format, training, format_help().c_str());
    visitor("hold-out", &S::hold_out, training, hold_out_help);
    visitor("fold", &S::fold, training, fold_help);
    visitor("skip-broken", &S::skip_broken, training, skip_broken_help);
    visitor("backend", &S::backend, other, "Train on all devices of this backend: cuda, vulkan or cpu");
    visitor("towers", &S::towers, training,
            "Train one tower on each of these devices, such as cuda:0,vulkan:1,cpu ('towers devices' lists "
            "them; default: every discrete GPU, else one integrated GPU, else the CPU)");
    visitor("shares", &S::shares, training,
            "How the towers share the global batch: auto (as fast as each is; the default), even, a ratio "
            "such as 3:1, or @RUN (step by step as that run did; after its last step they stay)");
    visitor("batch", &S::batch, training,
            "Mean number of examples per tower and step (default: the recipe's)");
    visitor("global-batch", &S::global_batch, training,
            "Number of examples per step for all towers together, instead of --batch");
    visitor(
        "micro-batch", &S::micro_batch, training,
        "The most examples that a tower computes at once; it takes a larger share in several micro-batches "
        "(default: as many as fit into its memory)");
    visitor("steps", &S::steps, other, "Total number of training steps (default: the recipe's)");
    visitor("epochs", &S::epochs, other, "Total number of passes over the training data, instead of --steps");
    visitor("lr", &S::lr, training, "Learning rate at the start (default: the recipe's)");
    visitor("precision", &S::precision, training, (precision_help + " (default: the recipe's)").c_str());
    visitor("round-operands", &S::round_operands, training, round_operands_help);
    visitor("wire", &S::wire, training,
            "How gradients travel between the ranks of several machines: fp32, or bf16, which halves their "
            "bytes for slow networks");
    visitor("seed", &S::seed, training,
            "Seed for the initial values, the order of the examples, the distortions and the drawn shapes "
            "(default: 1)");
    visitor(
        "distort", &S::distort, training,
        "Crop, flip and change the images at random, as the recipe says; off uses its evaluation pipeline");
    visitor("shuffle", &S::shuffle, training,
            "Draw the examples in a new order each epoch; off keeps the order of the records");
    visitor("init", &S::init, other,
            "Start from the variables in this safetensors file, or in a run's latest checkpoint; if it has "
            "another number of classes, the last layer begins anew (default: the recipe's initial values)");
    visitor(
        "freeze", &S::freeze, training,
        "Leave the variables as they are whose names fit this pattern, such as 'conv1/*' or 'layer1.*'; may "
        "be given several times; none: train all, in a resumed run");
    visitor("save-every", &S::save_every, other,
            "Number of steps between checkpoints; 0 saves only at the start and at the end");
    visitor("keep", &S::keep, other, "Number of checkpoints to keep, at least 2; 0 keeps all");
    visitor("eval-every", &S::eval_every, other,
            "Number of steps between passes over the test examples, on all towers; there is one at the end "
            "too; 0 makes none");
    visitor("eval-raw", &S::eval_raw, other,
            "Test the variables themselves instead of their moving averages (default: off)");
    visitor("eval-auc", &S::eval_auc, other,
            "Also measure AUC and average precision in test passes, for which the scores of all test "
            "examples are kept in memory (default: off)");
    visitor("best-by", &S::best_by, other,
            "The metric by which --keep-best, --stop-early and a plateau schedule judge test passes, such as "
            "f1_macro or balanced_accuracy (default: accuracy)");
    visitor("keep-best", &S::keep_best, other,
            "Keep the parameters of the best test pass in RUN/best.safetensors (default: off)");
    visitor("stop-early", &S::stop_early, other,
            "End the run after this many test passes that are not better than the best one; 0: never");
    visitor("log-every", &S::log_every, other, "Number of steps between log lines; 0 writes none");
    visitor("log-towers", &S::log_towers, other, "Also log each tower's own loss (default: off)");
    visitor("summary-every", &S::summary_every, other,
            "Number of steps between summaries for TensorBoard in RUN/events.out.tfevents.*; 0 writes none");
    visitor("on-device-loss", &S::on_device_loss, other,
            "When a device of several fails: continue with the others, or stop with a checkpoint");
    visitor(
        "device-timeout", &S::device_timeout, other,
        "Seconds, beyond what a step should take, after which a device that gives no answer has failed; 0 "
        "waits for ever");
    visitor("threads", &S::threads, other, threads_help);
    visitor("exact-products", &S::exact_products, other, exact_products_help);
    visitor(
        "tune", &S::tune, other,
        "How the devices choose the way in which they run each launch: off (by estimates); auto (cards "
        "measure before the first step where the estimate is unsure, for up to 3 s a card), quick or full "
        "(all measure the likely or all ways), each for this and later runs; or as in a file, such as an "
        "earlier run's choices.json");
    visitor(
        "feed", &S::feed, other,
        "Where the training images are: resident (all on every device), streamed (read ahead of the steps "
        "that take them), or auto (resident if they take at most half of each device's free memory)");
    visitor("readers", &S::readers, other,
            "Number of threads that read streamed images (default: as suits the processors)");
    visitor(
        "quirks", &S::quirks, training,
        "Reproduce defects of the published system: none, all, or some of last-tower-loss, step-schedule, "
        "unordered-average, delete-run, padded-evaluation, divided-batch-time, separated by commas");
}

// A path on Linux may be any bytes, but TOML is UTF-8. So a path that is not UTF-8 is kept as a URI (RFC
// 8089), which writes bytes as numbers.
constexpr std::string_view uri_scheme = "file://";

bool is_utf8(const std::string& text) {
    try {
        return !nlohmann::json(text).dump().empty();
    } catch (const nlohmann::json::type_error&) {
        return false;
    }
}

/// `@` before a file's path means that the run repeats its shares.
bool is_marked(const std::string& path) { return path.starts_with('@'); }

std::string to_uri(const std::string& path) {
    if (is_marked(path)) return '@' + to_uri(path.substr(1));
    std::string uri(uri_scheme);
    for (const char c : path) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                           std::string_view("/-._~").find(c) != std::string_view::npos;
        uri += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return uri;
}

/// Returns text that is not a URI unchanged.
std::string from_uri(const std::string& text) {
    if (is_marked(text)) return '@' + from_uri(text.substr(1));
    if (!text.starts_with(std::string(uri_scheme) + '/')) return text;
    std::string path;
    for (std::size_t i = uri_scheme.size(); i < text.size(); ++i) {
        if (text[i] != '%') {
            path += text[i];
            continue;
        }
        unsigned char byte = 0;
        const char* const digits = text.data() + i + 1;
        if (i + 2 >= text.size() || std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2)
            throw std::invalid_argument("has a % without two hexadecimal digits after it");
        path += char(byte);
        i += 2;
    }
    return path;
}

template<class T>
void take(const toml::node& node, T& field) {
    if constexpr (std::is_same_v<T, bool>) {
        if (!node.is_boolean()) throw std::invalid_argument("must be true or false");
        field = **node.as_boolean();
    } else if constexpr (std::is_floating_point_v<T>) {
        if (!node.is_number()) throw std::invalid_argument("must be a number");
        field = *node.value<T>();
    } else if constexpr (std::is_integral_v<T>) {
        if (!node.is_integer()) throw std::invalid_argument("must be a whole number");
        const std::int64_t value = **node.as_integer();
        if (value < 0) throw std::invalid_argument("must not be negative");
        if (std::uint64_t(value) > std::numeric_limits<T>::max()) throw std::invalid_argument("is too large");
        field = T(value);
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
        field.clear();
        if (node.is_array())
            for (const toml::node& each : *node.as_array())
                if (each.is_string()) field.push_back(**each.as_string());
        if (!node.is_array() || field.size() != node.as_array()->size())
            throw std::invalid_argument("must be a list of texts in quotes");
    } else {
        if (!node.is_string()) throw std::invalid_argument("must be text in quotes");
        field = from_uri(**node.as_string());
        if (field.empty()) throw std::invalid_argument("is empty; give a value or leave it out");
    }
}
template<class T>
void take(const toml::node& node, std::optional<T>& field) {
    T value{};
    take(node, value);
    field = value;
}

template<class T>
void put(std::string& text, const std::string& name, const T& field) {
    if constexpr (std::is_same_v<T, std::string>) {
        if (field.empty()) return;
        std::ostringstream quoted;
        quoted << toml::value<std::string>(is_utf8(field) ? field : to_uri(field));
        text += fmt::format("{} = {}\n", name, quoted.str());
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
        if (field.empty()) return;
        toml::array list;
        for (const std::string& each : field) list.push_back(each);
        std::ostringstream quoted;
        quoted << list;
        text += fmt::format("{} = {}\n", name, quoted.str());
    } else {
        text += fmt::format("{} = {}\n", name, field);
    }
}
template<class T>
void put(std::string& text, const std::string& name, const std::optional<T>& field) {
    if (field) put(text, name, *field);
}

} // namespace

void add_settings(CLI::App& command, TrainSettings& settings) {
    const auto add = [&]<class T>(const std::string& name, T TrainSettings::*member, Settings,
                                  const char* help) {
        T& field = settings.*member;
        if constexpr (std::is_same_v<T, bool>)
            add_switch(command, "--" + name, field, help);
        else if constexpr (std::is_same_v<T, std::string>) {
            CLI::Option* option = command.add_option("--" + name, field, help);
            if (!field.empty()) option->capture_default_str();
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
            if (name == "set")
                add_set(command, field);
            else
                command.add_option("--" + name, field, help)->allow_extra_args(false)->type_name("PATTERN");
        } else {
            CLI::Option* option =
                add_number(command, "--" + name, field, help, name.ends_with("batch") ? 1 : 0);
            if constexpr (std::is_arithmetic_v<T>) option->capture_default_str();
        }
    };
    for_each_setting(add);
}

std::set<std::string> given_settings(const CLI::App& command) {
    std::set<std::string> names;
    for_each_setting([&](const std::string& name, auto, Settings, const char*) {
        if (command.get_option("--" + name)->count() > 0) names.insert(name);
    });
    return names;
}

void replace(TrainSettings& settings, const GivenSettings& given) {
    if (given.gives("data")) {
        settings.test_data.clear();
        settings.format.clear();
        settings.hold_out.clear();
        settings.fold.clear();
    }
    if (given.gives("hold-out")) settings.fold.clear();
    if (given.gives("fold")) settings.hold_out.clear();
    if (given.gives("recipe")) {
        settings.set.clear();
        settings.freeze.clear();
    }
    if (given.gives("eval-every") && given.values.eval_every == 0) {
        settings.eval_raw = settings.eval_auc = settings.keep_best = false;
        settings.best_by.clear();
        settings.stop_early = 0;
    }
    if (given.gives("precision") && given.values.precision == name_of(Precision::fp32))
        settings.round_operands = false;
    if (given.gives("epochs")) settings.steps.reset();
    if (given.gives("steps")) settings.epochs.reset();
    if (given.gives("batch")) settings.global_batch.reset();
    if (given.gives("global-batch")) settings.batch.reset();
    if (given.gives("backend")) settings.towers.clear();
    if (given.gives("towers")) settings.backend.clear();
    if (given.gives("backend") || given.gives("towers")) settings.shares.clear();
    for_each_setting([&](const std::string& name, auto member, Settings, const char*) {
        if (given.gives(name)) settings.*member = given.values.*member;
    });
}

const Metric& best_by(const TrainSettings& settings) {
    return settings.best_by.empty() ? usual_metric(false) : find_metric(settings.best_by, "--best-by");
}

void judge_by_labels(TrainSettings& settings, const Recipe& recipe, bool has_label_sets) {
    if (settings.best_by.empty()) {
        if (has_label_sets && are_judged(settings.keep_best, settings.stop_early, recipe.schedule))
            settings.best_by = usual_metric(true).name;
        return;
    }
    if (!best_by(settings).fits(has_label_sets))
        throw UsageError(fmt::format("--best-by {}: {}; give another metric, such as {}", settings.best_by,
                                     has_label_sets ? "the test examples may have several labels"
                                                    : "each test example has one label",
                                     usual_metric(has_label_sets).name));
}

void replace(TrainSettings& settings, const Given& given) {
    replace(settings, given.file);
    replace(settings, given.flags);
}

GivenSettings read_settings(const std::filesystem::path& file) {
    return parse_settings(read_file(file), file.string());
}

PrecisionFlags precision_in(const TrainSettings& settings) {
    return {settings.precision, settings.round_operands};
}

namespace {

/// The flags of train that are not settings, because they concern one start of the program.
constexpr std::string_view other_flags[] = {"run",           "resume",      "resume-from", "config",
                                            "trace",         "trace-steps", "progress",    "validate",
                                            "log-placement", "report"};

} // namespace

GivenSettings parse_settings(const std::string& text, const std::string& source) {
    toml::table table;
    try {
        table = parse_tables(text);
    } catch (const toml::parse_error& error) {
        throw InputError(fmt::format("{}:{}: {}", source, error.source().begin.line, error.description()));
    }
    for (const auto& [one, other] :
         {std::pair{"batch", "global-batch"}, {"steps", "epochs"}, {"backend", "towers"}})
        if (table.contains(one) && table.contains(other))
            throw InputError(
                fmt::format("{}:{}: '{}' and '{}' set the same thing in two ways; give one of them", source,
                            table.get(other)->source().begin.line, one, other));
    GivenSettings given;
    for_each_setting([&](const std::string& name, auto member, Settings, const char*) {
        const toml::node* const node = table.get(name);
        if (node == nullptr) return;
        try {
            take(*node, given.values.*member);
        } catch (const std::invalid_argument& error) {
            throw InputError(
                fmt::format("{}:{}: '{}' {}", source, node->source().begin.line, name, error.what()));
        }
        table.erase(name);
        given.names.insert(name);
    });
    for (const auto& [key, node] : table) { // the rest are not settings
        const std::string_view name = key;
        const auto complain = [&, line = node.source().begin.line](const std::string& what) {
            throw InputError(fmt::format("{}:{}: {}", source, line, what));
        };
        if (std::ranges::find(other_flags, name) != std::end(other_flags))
            complain(fmt::format("'{0}' is no setting of a run; give the flag --{0} instead", name));
        complain(fmt::format("there is no setting '{}'; see 'towers train --help'", name));
    }
    return given;
}

std::string write_settings(const TrainSettings& settings, Settings which) {
    std::string text;
    for_each_setting([&](const std::string& name, auto member, Settings kind, const char*) {
        if (which == Settings::all || kind == which) put(text, name, settings.*member);
    });
    return text;
}

namespace {

/// Whether a setting is one of the two ways to set the examples in a step.
bool says_batch(const std::string& name) { return name == "batch" || name == "global-batch"; }

} // namespace

std::vector<std::string> changes_of_training(const TrainSettings& before, const TrainSettings& after) {
    // Each setting's value as config.toml shows it after `name = `.
    const auto values_of = [](const TrainSettings& settings) {
        std::map<std::string, std::string> values;
        for_each_setting([&](const std::string& name, auto member, Settings which, const char*) {
            if (which != Settings::of_training || says_batch(name)) return;
            std::string line;
            put(line, name, settings.*member);
            values[name] = line.empty() ? "none" : line.substr(name.size() + 3);
            std::erase(values[name], '\n');
        });
        return values;
    };
    const auto earlier = values_of(before), later = values_of(after);
    std::vector<std::string> changes;
    for (const auto& [name, value] : earlier)
        if (later.at(name) != value)
            changes.push_back(fmt::format("{} from {} to {}", name, value, later.at(name)));
    return changes;
}

} // namespace towers
