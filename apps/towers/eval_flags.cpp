#include "apps/towers/eval_flags.h"

#include "apps/towers/data_flags.h"
#include "apps/towers/eval_report.h"
#include "apps/towers/flags.h"
#include "apps/towers/trained_model.h"
#include "backends/error.h"
#include "engine/files/output.h"

#include <fmt/format.h>
#include <utility>

namespace towers {

void add_eval_flags(CLI::App& command, EvalFlags& flags) {
    add_model(command, flags.model,
              "A run's folder, whose latest checkpoint is evaluated, or a checkpoint file");
    command.add_option("--recipe", flags.recipe,
                       "Recipe of the checkpoint: a TOML file, or a built-in one's name (default: the one "
                       "that its run keeps, else the one that it names)");
    add_set(command, flags.set);
    command.add_option("--data", flags.data,
                       fmt::format("Data to evaluate on: {} (default: what the checkpoint was trained on)",
                                   data_help(false)));
    command.add_option("--format", flags.format, format_help());
    command.add_flag("--skip-broken", flags.skip_broken, skip_broken_help);
    command.add_option("--split", flags.split, "Examples to evaluate: test or train")
        ->check(one_of({"test", "train"}))
        ->type_name("test|train")
        ->capture_default_str();
    command.add_flag("--raw", flags.raw,
                     "Evaluate the variables themselves instead of their moving averages");
    command.add_flag(
        "--per-class", flags.per_class,
        "Also print precision, recall, F1 and AUC of each class, their averages, and what it is "
        "most often taken for, or, where examples may have several labels, how often it is found and missed");
    add_threshold(command, flags.threshold);
    command.add_option("--best-thresholds", flags.best_thresholds,
                       "Find for each class the threshold with the best F1, and write them to this file, for "
                       "--threshold; - is standard output");
    add_number(command, "--top", flags.top,
               "Count examples whose class is among the K with the highest scores (default: 5, if the model "
               "has more classes)",
               1)
        ->type_name("K");
    command.add_option("--json", flags.json, "Write all metrics to this file as JSON; - is standard output");
    command.add_option(
        "--confusion", flags.confusion,
        "Write the confusion matrix to this file: CSV if its name ends in .csv, a picture if "
        "it ends in .png; - is CSV on standard output. Where examples may have several labels: "
        "a CSV line for each class with its true and false positives and negatives");
    command.add_option("--backend", flags.backend,
                       "Evaluate on all devices of this backend: cuda, vulkan or cpu");
    command.add_option("--towers", flags.towers,
                       "Evaluate on these devices, each with a part of the examples, such as vulkan:0,cpu "
                       "('towers devices' lists them; default: those that training would use)");
    add_number(command, "--batch", flags.batch, "Number of examples at a time", 1)->capture_default_str();
    add_number(command, "--interval", flags.interval,
               "Look for a newer checkpoint every N seconds and evaluate it; 0 evaluates once")
        ->capture_default_str();
    add_threads(command, flags.open.threads);
    add_exact_products(command, flags.open.exact_products);
    add_precision(command, flags.products, "as the checkpoint was trained");
    command.add_option(
        "--quirks", flags.quirks,
        "Reproduce a defect of the published system. padded-evaluation: fill the last batch with repeated "
        "images and count them; none: do not (default: as the checkpoint was trained)");
    add_device_flags(command, flags.open);
}

void check(const EvalFlags& flags) {
    check_model(flags.model, "eval");
    if (flags.interval > 0 && !is_run(flags.model))
        throw UsageError(fmt::format("--interval: a file gets no newer checkpoint; give the folder of a run "
                                     "in place of {}",
                                     flags.model));
    check_threads(flags.open.threads);
    check_precision(flags.products);
    if (!flags.confusion.empty()) check_confusion_file(flags.confusion);
    for (const std::string& file : {flags.json, flags.best_thresholds})
        if (!file.empty()) check_output(file);
    const std::pair<const char*, const std::string*> outputs[] = {
        {"--json", &flags.json},
        {"--confusion", &flags.confusion},
        {"--best-thresholds", &flags.best_thresholds}};
    const char* taken = nullptr;
    for (const auto& [flag, file] : outputs)
        if (!file->empty() && is_standard_output(*file))
            if (const char* const other = std::exchange(taken, flag))
                throw UsageError(fmt::format(
                    "{} and {} both write to standard output; give a file for one of them", other, flag));
}

} // namespace towers
