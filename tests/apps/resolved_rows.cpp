#include "tests/apps/resolved_rows.h"

#include "backends/error.h"
#include "engine/files/text.h"
#include "engine/shares/selection.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace towers::rows {
namespace {

namespace fs = std::filesystem;

/// The settings as config.toml keeps them, and a line for each other thing that is decided.
std::string describe(const ResolvedRun& run, const RunInputs& inputs) {
    std::vector<std::string> recorded;
    for (const SharesFrom& from : run.shares.recorded)
        recorded.push_back(fmt::format("{}{}{} from step {}", to_string(from.shares),
                                       from.micro_batches.empty() ? "" : " in ",
                                       to_string(from.micro_batches), from.step));
    return fmt::format("{}[towers {}] [global batch {}] [threads {}] [products {}{}] [folder {}] [{}]\n"
                       "[{}, weights {}, recorded {}]\n[recipe of {}] [from {}] [notes {}]\n",
                       write_settings(run.settings, Settings::all), fmt::join(run.towers, " "),
                       run.global_batch, run.open.threads, name_of(run.open.precision),
                       run.open.round_operands ? " rounded" : "", run.folder,
                       run.existing == Existing::resume  ? "resume"
                       : run.existing == Existing::erase ? "erase"
                                                         : "refuse",
                       run.shares.automatic ? "automatic" : "fixed", fmt::join(run.shares.weights, ":"),
                       fmt::join(recorded, ", "), fs::path(run.recipe.source).filename().string(),
                       inputs.past ? inputs.past->checkpoint.path.filename().string() : "nothing",
                       fmt::join(run.notes, ", "));
}

std::string with_folder(std::string text, const test::TemporaryFolder& folder) {
    for (std::size_t at = 0; (at = text.find("HERE", at)) != std::string::npos;)
        text.replace(at, 4, folder.path().string());
    return text;
}

void write_run(const fs::path& run, const Before& before) {
    fs::create_directories(run);
    for (const std::uint64_t step : {0, 2, 4}) {
        TensorFile file{
            .tensors = {},
            .metadata = {{"step", std::to_string(step)}, {"seed", "7"}, {"settings", before.trained}},
            .words = {},
            .bytes = {}};
        if (!before.towers.empty()) {
            file.metadata["towers"] = before.towers;
            file.metadata["threads"] = before.threads;
        }
        write_safetensors(run / fmt::format("model.ckpt-{}.safetensors", step), file);
    }
    const auto write = [&](const char* name, const std::string& text) {
        if (!text.empty()) test::write_text(run / name, text);
    };
    write("config.toml", before.config);
    write("metrics.jsonl", before.metrics);
    write("times.jsonl", before.times);
    write("recipe.toml", before.recipe);
}

} // namespace

std::vector<std::string> select(const std::string& backend, const std::string& towers,
                                const OpenOptions& options) {
    if (!backend.empty() && !towers.empty()) return select_towers(backend, towers, options); // throws
    if (!towers.empty()) return split_towers(towers);
    if (backend == "gpu") return {"a", "b", "c"};
    if (backend.empty()) return {"a"};
    return {backend};
}

FoundAgain find(std::span<const DeviceRecord> before, const OpenOptions&) {
    FoundAgain found;
    for (const DeviceRecord& was : before) {
        const bool there = was.name == "A" || was.name == "B" || was.name == "C";
        found.ids.push_back(was.id == "cpu" ? was.id : there ? lower(was.name) : "");
        if (found.ids.back().empty()) found.missing += was.name + " is not there";
    }
    return found;
}

void check(const Row& row, const Machine& machine) {
    CAPTURE(row.flags);
    CAPTURE(row.config);
    const test::TemporaryFolder folder;
    std::string line = with_folder(row.flags, folder);
    if (line.find("--resume") != std::string::npos) write_run(folder / "run", row.before);
    write_run(folder / "recorded", row.recorded);
    for (const auto& [name, text] :
         {std::pair{"shares", "{\"step\":0,\"shares\":[9,7]}\n{\"step\":3,\"shares\":[4,12]}\n"},
          {"divided", "{\"step\":0,\"shares\":[6,2],\"micro_batches\":[1,1]}\n"
                      "{\"step\":4,\"shares\":[6,2],\"micro_batches\":[3,1]}\n"},
          {"three", "{\"step\":7,\"shares\":[4,8,4]}\n"},
          {"negative", "{\"step\":0,\"shares\":[-4,20]}\n"},
          {"text", "no metrics\n"},
          {"single", "{\"step\":0}\n"}})
        test::write_text(folder / (std::string(name) + ".jsonl"), text);
    fs::create_directory(folder / "folder");
    if (!row.config.empty()) {
        test::write_text(folder / "config.toml", row.config);
        line += fmt::format(" --config {}/config.toml", folder.path().string());
    }
    TrainFlags flags;
    CLI::App command;
    add_train_flags(command, flags);
    command.parse(line);
    flags.settings.names = given_settings(command);
    const auto before = test::names_in(folder.path());
    try {
        const RunInputs inputs = read_inputs(flags, machine);
        const std::string text = describe(resolve(flags, inputs, machine), inputs);
        CAPTURE(text);
        CHECK(row.error == "");
        for (const std::string& part : row.has) {
            CAPTURE(part);
            const bool found = part.starts_with('!')
                                   ? ("\n" + text).find("\n" + part.substr(1) + " = ") == std::string::npos
                                   : text.find(with_folder(part, folder)) != std::string::npos;
            CHECK(found);
        }
    } catch (const InputError& error) {
        CHECK(std::string(error.what()) == with_folder(row.error, folder));
        CHECK((dynamic_cast<const UsageError*>(&error) != nullptr) == row.usage);
    }
    CHECK(test::names_in(folder.path()) == before); // nothing is made
}

} // namespace towers::rows
