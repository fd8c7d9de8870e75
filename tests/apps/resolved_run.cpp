// What a run will do follows from its flags, its configuration file and its past, in this order. Each row of
// the tables is a command line, without the program and without devices.
#include "apps/towers/resolved_run.h"

#include "engine/error.h"
#include "engine/files/text.h"
#include "engine/shares/selection.h"
#include "tests/support/environment.h"
#include "tests/support/files.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace towers {
namespace {

namespace fs = std::filesystem;

/// What the run in HERE/run has left.
struct Before {
    std::string trained =
        "towers = 'a,b'\nshares = '3:1'\nbatch = 4\nlr = 0.1\nseed = 7\n"; ///< as checkpoints say
    std::string config = "steps = 10\n"; ///< its config.toml; "": there is none
    std::string metrics = {};            ///< likewise
    std::string recipe = {};
    std::string towers = {},
                threads = "1"; ///< in the checkpoints' metadata, unless an early version wrote them
    std::string times = {};    ///< its times.jsonl; "": there is none
};

struct Row {
    std::string flags;       ///< of train; HERE is a temporary folder
    std::string config = {}; ///< the file that --config names
    Before before = {};      ///< of a run that is resumed
    Before recorded = {};    ///< of a run in HERE/recorded
    std::vector<std::string> has =
        {};                 ///< lines that describe() gives, or `!name` for a setting that is not set
    std::string error = {}; ///< instead: the message
    bool usage = true;      ///< whether it is a UsageError
};

/// A machine whose only backend `gpu` shows devices a, b and c, besides the cpu.
std::vector<std::string> select(const std::string& backend, const std::string& towers,
                                const OpenOptions& options) {
    if (!backend.empty() && !towers.empty()) return select_towers(backend, towers, options); // throws
    if (!towers.empty()) return split_towers(towers);
    if (backend == "gpu") return {"a", "b", "c"};
    if (backend.empty()) return {"a"};
    return {backend};
}

/// The cards' names are A, B and C. There is no other.
FoundAgain find(std::span<const DeviceRecord> before, const OpenOptions&) {
    FoundAgain found;
    for (const DeviceRecord& was : before) {
        const bool there = was.name == "A" || was.name == "B" || was.name == "C";
        found.ids.push_back(was.id == "cpu" ? was.id : there ? lower(was.name) : "");
        if (found.ids.back().empty()) found.missing += was.name + " is not there";
    }
    return found;
}

/// The settings as config.toml keeps them, and a line for each other thing that is decided.
std::string describe(const ResolvedRun& run, const Sources& sources) {
    std::vector<std::string> recorded;
    for (const SharesFrom& from : run.shares.recorded)
        recorded.push_back(fmt::format("{}{}{} from step {}", to_string(from.shares),
                                       from.micro_batches.empty() ? "" : " in ",
                                       to_string(from.micro_batches), from.step));
    return fmt::format("{}[towers {}] [global batch {}] [threads {}] [folder {}] [{}]\n"
                       "[{}, weights {}, recorded {}]\n[recipe of {}] [from {}] [notes {}]\n",
                       write_settings(run.settings, Settings::all), fmt::join(run.towers, " "),
                       run.global_batch, run.open.threads, run.folder,
                       run.existing == Existing::resume  ? "resume"
                       : run.existing == Existing::erase ? "erase"
                                                         : "refuse",
                       run.shares.automatic ? "automatic" : "fixed", fmt::join(run.shares.weights, ":"),
                       fmt::join(recorded, ", "), fs::path(run.recipe.source).filename().string(),
                       sources.past ? sources.past->checkpoint.path.filename().string() : "nothing",
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

void check(const Row& row, const Machine& machine = {select, find}) {
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
        const Sources sources = read_sources(flags, machine);
        const std::string text = describe(resolve(flags, sources, machine), sources);
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

} // namespace

TEST_CASE("flags come before the configuration file, and that before the recipe") {
    const Row rows[] = {
        {.flags = "",
         .has = {"recipe = 'cifar10-tutorial'", "data = 'shapes'", "towers = 'a'", "!shares", "batch = 128\n",
                 "!global-batch", "steps = 100000\n", "lr = 0.1\n", "seed = 1\n", "[global batch 128]",
                 "[folder ]", "[refuse]", "[threads 0]", "[fixed, weights , recorded ]", "[from nothing]"}},
        {.flags = "", .config = "lr = 0.2\nseed = 5\n", .has = {"lr = 0.2\n", "seed = 5\n"}},
        {.flags = "--lr 0.3", .config = "lr = 0.2\nseed = 5\n", .has = {"lr = 0.3\n", "seed = 5\n"}},
        {.flags = "--distort off",
         .config = "shuffle = false\n",
         .has = {"distort = false", "shuffle = false"}},
        {.flags = "--distort on", .config = "distort = false\n", .has = {"distort = true"}},
        // Two ways to say the same
        {.flags = "--epochs 2", .config = "steps = 5\n", .has = {"!steps", "epochs = 2\n"}},
        {.flags = "--steps 5", .config = "epochs = 2\n", .has = {"steps = 5\n", "!epochs"}},
        {.flags = "--global-batch 6", .config = "batch = 4\n", .has = {"!batch", "[global batch 6]"}},
        {.flags = "--batch 6", .config = "global-batch = 4\n", .has = {"!global-batch", "[global batch 6]"}},
        {.flags = "--backend gpu", .config = "towers = 'a,b'\n", .has = {"towers = 'a,b,c'", "!backend"}},
        {.flags = "--towers cpu", .config = "backend = 'gpu'\n", .has = {"towers = 'cpu'", "[towers cpu]"}},
        // Shares are of their own towers, changes of their own recipe.
        {.flags = "",
         .config = "towers = 'a,b'\nshares = '3:1'\n",
         .has = {"shares = '3:1'", "weights 3:1,"}},
        {.flags = "--towers a,c", .config = "towers = 'a,b'\nshares = '3:1'\n", .has = {"shares = 'auto'"}},
        {.flags = "--towers a,c --shares 1:2",
         .config = "towers = 'a,b'\nshares = '3:1'\n",
         .has = {"shares = '1:2'"}},
        {.flags = "--recipe mnist-lenet",
         .config = "set = ['optimizer.learning_rate=0.5']\n",
         .has = {"!set", "lr = 0.01\n", "batch = 100\n", "steps = 6000\n"}},
        {.flags = "",
         .config = "set = ['optimizer.learning_rate=0.5']\n",
         .has = {"set = [ 'optimizer.learning_rate=0.5' ]", "lr = 0.5\n"}},
        {.flags = "--set optimizer.learning_rate=0.7",
         .config = "set = ['optimizer.learning_rate=0.5']\n",
         .has = {"lr = 0.7\n"}},
    };
    for (const Row& row : rows) check(row);
}

TEST_CASE("towers, batch and shares decide each other") {
    const Row rows[] = {
        {.flags = "--towers a,b --batch 8", .has = {"shares = 'auto'", "[automatic", "[global batch 16]"}},
        {.flags = "--towers a,b --shares even", .has = {"shares = 'even'", "[fixed, weights , recorded ]"}},
        {.flags = "--towers a --shares auto", .has = {"!shares", "[fixed"}},
        {.flags = "--shares 3", .has = {"shares = '3'"}},
        {.flags = "--towers cpu,cpu --shares @HERE/shares.jsonl --batch 8",
         .has = {"shares = '@HERE/shares.jsonl'",
                 "[fixed, weights , recorded 9:7 from step 0, 4:12 from step 3]"}},
        {.flags = "--threads 3 --run HERE/new", .has = {"threads = 3", "[threads 3]", "[folder HERE/new]"}},
        {.flags = "--run HERE/new --quirks delete-run", .has = {"[erase]"}},
        {.flags = "--data HERE/folder/../data --init HERE/./x",
         .has = {"data = 'HERE/data'", "init = 'HERE/x'"}},
        {.flags = "--towers cpu,cpu --recipe cifar10-resnet20 --set defaults.batch_norm.group=32 "
                  "--global-batch 96",
         .has = {"[global batch 96]"}},
    };
    for (const Row& row : rows) check(row);
}

TEST_CASE("a resumed run keeps what nobody changes, from the latest of its settings") {
    const std::string metrics = "{\"step\":0,\"shares\":[4,4]}\n{\"step\":1,\"shares\":[6,2]}\n"
                                "{\"step\":3,\"shares\":[2,6]}\n{\"step\":";
    const Before automatic{.trained = "towers = 'a,b'\nshares = 'auto'\nbatch = 4\n", .metrics = metrics};
    const std::string kept = "# mine\n" + find_recipe("mnist-lenet").text;
    const Row rows[] = {
        {.flags = "--resume --run HERE/run",
         .has = {"towers = 'a,b'", "shares = '3:1'", "batch = 4\n", "!global-batch", "lr = 0.1\n",
                 "seed = 7\n", "steps = 10\n", "[global batch 8]", "[resume]", "[folder HERE/run]",
                 "[from model.ckpt-4.safetensors]"}},
        // Flags, file, config.toml, checkpoint
        {.flags = "--resume --run HERE/run --lr 0.4",
         .config = "lr = 0.3\n",
         .before = {.config = "lr = 0.2\nsteps = 12\n"},
         .has = {"lr = 0.4\n", "steps = 12\n", "seed = 7\n"}},
        {.flags = "--resume --run HERE/run",
         .config = "lr = 0.3\n",
         .before = {.config = "lr = 0.2\nsteps = 10\n"},
         .has = {"lr = 0.3\n"}},
        {.flags = "--resume --run HERE/run",
         .before = {.config = "lr = 0.2\nsteps = 10\n"},
         .has = {"lr = 0.2\n"}},
        {.flags = "--resume --run HERE/run --steps 11", .before = {.config = ""}, .has = {"lr = 0.1\n"}},
        {.flags = "--resume --run HERE/run --epochs 3", .has = {"epochs = 3\n", "!steps"}},
        {.flags = "--resume-from 2 --run HERE/run", .has = {"[from model.ckpt-2.safetensors]", "[resume]"}},
        {.flags = "--resume --run HERE/run --quirks delete-run", .has = {"[resume]"}},
        // The global batch stays, whatever the towers; the same towers keep their shares.
        {.flags = "--resume --run HERE/run --towers c",
         .has = {"global-batch = 8\n", "!batch", "!shares", "[global batch 8]"}},
        {.flags = "--resume --run HERE/run --towers c,b",
         .has = {"batch = 4\n", "!global-batch", "shares = 'auto'", "[global batch 8]"}},
        {.flags = "--resume --run HERE/run --towers a,b", .has = {"shares = '3:1'"}},
        {.flags = "--resume --run HERE/run --backend gpu",
         .has = {"global-batch = 8\n", "towers = 'a,b,c'", "shares = 'auto'"}},
        {.flags = "--resume --run HERE/run --batch 2",
         .has = {"batch = 2\n", "!global-batch", "[global batch 4]", "shares = '3:1'"}},
        {.flags = "--resume --run HERE/run --global-batch 6", .has = {"!batch", "[global batch 6]"}},
        {.flags = "--resume --run HERE/run --shares 1:7", .has = {"shares = '1:7'"}},
        {.flags = "--resume --run HERE/run",
         .before = {.config = "backend = 'gpu'\nsteps = 10\n"}, // which a user has edited
         .has = {"towers = 'a,b,c'", "shares = 'even'", "batch = 4\n", "[global batch 12]"}},
        // Shares that follow the towers' speed begin with those of the checkpoint's last step.
        {.flags = "--resume --run HERE/run",
         .before = automatic,
         .has = {"shares = 'auto'", "[automatic, weights , recorded 2:6 from step 4]"}},
        {.flags = "--resume-from 2 --run HERE/run",
         .before = automatic,
         .has = {"recorded 6:2 from step 2]"}},
        {.flags = "--resume-from 0 --run HERE/run",
         .before = automatic,
         .has = {"[automatic, weights , recorded ]"}},
        {.flags = "--resume --run HERE/run --towers a,c",
         .before = automatic,
         .has = {"[automatic, weights , recorded ]"}},
        {.flags = "--resume --run HERE/run --batch 5",
         .before = automatic,
         .has = {"[automatic, weights , recorded ]"}},
        // The recipe that it keeps, unless another is asked for
        {.flags = "--resume --run HERE/run --recipe mnist-lenet",
         .before = {.trained = "recipe = 'mnist-lenet'\nbatch = 4\n", .recipe = kept},
         .has = {"[recipe of recipe.toml]"}},
        {.flags = "--resume --run HERE/run",
         .before = {.trained = "recipe = 'mnist-lenet'\nbatch = 4\n", .recipe = kept},
         .has = {"[recipe of recipe.toml]"}},
        {.flags = "--resume --run HERE/run --set optimizer.learning_rate=0.5",
         .before = {.trained = "recipe = 'mnist-lenet'\nbatch = 4\n", .recipe = kept},
         .has = {"set = [ 'optimizer.learning_rate=0.5' ]", "[recipe of mnist-lenet"}},
        {.flags = "--resume --run HERE/run",
         .before = {.trained = "init = '/x'\nbatch = 4\n"},
         .has = {"init = '/x'"}},
    };
    for (const Row& row : rows) check(row);
}

TEST_CASE("a resumed run goes on with the shares, micro-batches and threads that its checkpoint records") {
    const auto record = [](const char* a, const char* b) {
        return fmt::format(R"([{{"device":"a","driver":"1","name":"A",{}}},)"
                           R"({{"device":"b","driver":"1","name":"B",{}}}])",
                           a, b);
    };
    const std::string taken = record(R"("micro_batches":2,"share":6)", R"("micro_batches":1,"share":2)");
    const std::string trained = "towers = 'a,b'\nshares = '3:1'\nbatch = 4\n";
    const std::string automatic = "towers = 'a,b'\nshares = 'auto'\nbatch = 4\n";
    const Before fixed{.trained = trained, .towers = taken};
    const std::string none = "[fixed, weights 3:1, recorded ]";
    const auto with_threads = [&](const char* threads) {
        return Before{.trained = trained, .towers = taken, .threads = threads};
    };
    const auto damaged = [&](const std::string& towers, const char* threads = "1") {
        return Row{.flags = "--resume --run HERE/run",
                   .before = {.trained = trained, .towers = towers, .threads = threads},
                   .error = "HERE/run/model.ckpt-4.safetensors: 'towers' or 'threads' in its metadata is "
                            "damaged; use another checkpoint",
                   .usage = false};
    };
    const Row rows[] = {
        {.flags = "--resume --run HERE/run",
         .before = fixed,
         .has = {"[fixed, weights 3:1, recorded 6:2 in 2:1 from step 4]", "shares = '3:1'", "threads = 0\n",
                 "[threads 1]"}},
        {.flags = "--resume-from 0 --run HERE/run", .before = fixed, .has = {"6:2 in 2:1 from step 0]"}},
        {.flags = "--resume --run HERE/run --shares 6:2",
         .before = fixed,
         .has = {"6:2 in 2:1 from step 4]"}},
        // Other towers, shares, batch or micro-batches are chosen anew.
        {.flags = "--resume --run HERE/run --towers a,c",
         .before = fixed,
         .has = {"[automatic, weights , recorded ]"}},
        {.flags = "--resume --run HERE/run --shares 1:7",
         .before = fixed,
         .has = {"weights 1:7, recorded ]"}},
        {.flags = "--resume --run HERE/run --batch 5", .before = fixed, .has = {none}},
        {.flags = "--resume --run HERE/run --micro-batch 6", .before = fixed, .has = {none}},
        {.flags = "--resume --run HERE/run --micro-batch 6",
         .before = {.trained = trained + "micro-batch = 6\n", .towers = taken},
         .has = {"recorded 6:2 in 2:1 from step 4]"}},
        // A tower was lost, or the first step's shares are not known yet.
        {.flags = "--resume --run HERE/run",
         .before = {.trained = trained,
                    .towers = record(R"("micro_batches":2,"share":8)", R"("micro_batches":0,"share":0)")},
         .has = {none}},
        {.flags = "--resume --run HERE/run",
         .before = {.trained = automatic,
                    .towers = record(R"("micro_batches":0,"share":0)", R"("micro_batches":0,"share":0)")},
         .has = {"[automatic, weights , recorded ]"}},
        {.flags = "--resume --run HERE/run",
         .before = {.trained = automatic, .towers = taken},
         .has = {"[automatic, weights , recorded 6:2 in 2:1 from step 4]"}},
        {.flags = "--resume --run HERE/run --micro-batch 3",
         .before = {.trained = automatic, .towers = taken},
         .has = {"[automatic, weights , recorded 6:2 from step 4]"}},
        // Of another run's record, what this run has done itself goes on as long as the record stays.
        {.flags = "--resume-from 2 --run HERE/run --shares @HERE/divided.jsonl",
         .before = fixed,
         .has = {"recorded 6:2 in 1:1 from step 0, 6:2 in 2:1 from step 2, 6:2 in 3:1 from step 4]"}},
        {.flags = "--resume --run HERE/run --shares @HERE/divided.jsonl",
         .before = fixed,
         .has = {"recorded 6:2 in 1:1 from step 0, 6:2 in 3:1 from step 4]"}},
        // Threads: the flag, else as many as before if the process may use them
        {.flags = "--resume --run HERE/run --threads 3", .before = fixed, .has = {"[threads 3]"}},
        {.flags = "--resume --run HERE/run --threads 0", .before = fixed, .has = {"[threads 0]"}},
        {.flags = "--resume --run HERE/run", .before = with_threads("1024"), .has = {"[threads 0]"}},
        damaged("[{}]"),
        damaged("x"),
        damaged(record(R"("micro_batches":-1,"share":6)", R"("micro_batches":1,"share":2)")),
        damaged(record(R"("micro_batches":1,"share":"6")", R"("micro_batches":1,"share":2)")),
        damaged(taken, "many"),
        damaged(taken, "4096"),
    };
    test::Environment environment;
    environment.set("OMP_NUM_THREADS", nullptr);
    for (const Row& row : rows) check(row);
    environment.set("OMP_NUM_THREADS", "2");
    check({.flags = "--resume --run HERE/run", .before = fixed, .has = {"[threads 0]"}});
}

TEST_CASE("a resumed run goes on with its own devices, which may have other ids now") {
    const auto devices = [](const char* a, const char* b) {
        return fmt::format(R"([{{"device":"a","name":"{}","driver":"1","micro_batches":2,"share":6}},)"
                           R"({{"device":"b","name":"{}","driver":"1","micro_batches":1,"share":2}}])",
                           a, b);
    };
    const std::string trained = "towers = 'a,b'\nshares = '3:1'\nbatch = 4\n";
    const Before moved{.trained = trained, .towers = devices("B", "A")};
    const Before gone{.trained = trained, .towers = devices("D", "A")};
    const Before all_gone{.trained = trained, .towers = devices("D", "E")};
    // It was at b when the run started last, and made no checkpoint then.
    const Before again{.trained = "towers = 'c'\nbatch = 4\n",
                       .config = "towers = 'b'\nsteps = 10\n",
                       .towers = R"([{"device":"c","name":"A","driver":"1","micro_batches":2,"share":4}])",
                       .times = "{\"event\":\"resume\",\"step\":4,\"time\":1.5,\"towers\":[{\"device\":\"b\","
                                "\"name\":\"A\"}]}\n{\"event\":\"failed\",\"step\":5,\"time\":2.5}\n"};
    Before edited = again;
    edited.config = "towers = 'c'\nsteps = 10\n"; // as in the checkpoint
    Before other = again;
    other.config = "towers = 'c'\nsteps = 10\n";
    other.times = "{\"event\":\"resume\",\"step\":4,\"time\":1.5,\"towers\":[{\"device\":\"c\","
                  "\"name\":\"B\"}]}\n";
    Before earlier = other; // the checkpoint is later
    earlier.times.replace(earlier.times.find("4"), 1, "3");
    Before damaged = other;
    damaged.times += "{\"event\":1}\n";
    Before named = again;
    named.config = "towers = 'b,c'\nsteps = 10\n"; // by a user
    const std::string resume = "--resume --run HERE/run";
    const Row rows[] = {
        {.flags = resume,
         .before = moved,
         .has = {"towers = 'b,a'", "[towers b a]", "shares = '3:1'", "batch = 4\n",
                 "[fixed, weights 3:1, recorded 6:2 in 2:1 from step 4]"}},
        // Named, they are the same towers too; the ids that they had are others.
        {.flags = resume + " --towers b,a",
         .before = moved,
         .has = {"shares = '3:1'", "recorded 6:2 in 2:1 from step 4]"}},
        {.flags = resume + " --towers a,b",
         .before = moved,
         .has = {"towers = 'a,b'", "shares = 'auto'", "[automatic, weights , recorded ]"}},
        {.flags = resume,
         .before = gone,
         .error = "--resume: D is not there; give --towers a to go on without it, or other devices"},
        {.flags = resume,
         .before = all_gone,
         .error = "--resume: D is not thereE is not there; give --towers to go on with other devices"},
        {.flags = resume + " --towers a",
         .before = gone,
         .has = {"towers = 'a'", "global-batch = 8\n", "!shares", "recorded ]"}},
        // The ids are those of the settings, but what is there now is another device.
        {.flags = resume + " --towers a,b",
         .before = gone,
         .has = {"towers = 'a,b'", "shares = 'auto'", "[automatic, weights , recorded ]"}},
        {.flags = resume, .config = "towers = 'c,b'\n", .before = gone, .has = {"towers = 'c,b'"}},
        {.flags = resume + " --backend gpu", .before = gone, .has = {"towers = 'a,b,c'"}},
        {.flags = resume, .before = again, .has = {"towers = 'a'", "recorded 4 in 2 from step 4]"}},
        {.flags = resume, .before = edited, .has = {"towers = 'a'", "recorded 4 in 2 from step 4]"}},
        {.flags = resume, .before = named, .has = {"towers = 'b,c'", "recorded ]"}},
        // By its id the run went on with another device, and made no checkpoint then.
        {.flags = resume, .before = other, .has = {"towers = 'b'", "recorded ]"}},
        {.flags = resume, .before = earlier, .has = {"towers = 'a'", "recorded 4 in 2 from step 4]"}},
        // A damaged times.jsonl is as none.
        {.flags = resume, .before = damaged, .has = {"towers = 'a'", "recorded 4 in 2 from step 4]"}},
    };
    for (const Row& row : rows) check(row);
}

TEST_CASE("only where something needs the devices are they looked for") {
    const std::string towers = R"([{"device":"a","name":"D","driver":"1","micro_batches":2,"share":4},)"
                               R"({"device":"cpu","name":"E","driver":"1","micro_batches":2,"share":4}])";
    const Before before{.trained = "towers = 'a,cpu'\nbatch = 4\n", .towers = towers};
    const std::string recorded =
        R"({"event":"start","step":0,"time":1.5,"towers":[{"device":"a","name":"D"},)"
        R"({"device":"cpu","name":"E"}]})"
        "\n";
    const Machine blind{select, [](std::span<const DeviceRecord>, const OpenOptions&) -> FoundAgain {
                            throw InputError("looked for devices");
                        }};
    const std::string resume = "--resume --run HERE/run";
    const Row rows[] = {
        {.flags = resume + " --towers cpu",
         .before = before,
         .has = {"towers = 'cpu'", "global-batch = 8\n"}},
        {.flags = resume + " --towers cpu,cpu", .before = before, .has = {"towers = 'cpu,cpu'"}},
        {.flags = resume + " --backend cpu", .before = before, .has = {"towers = 'cpu'"}},
        {.flags = resume, .config = "towers = 'cpu'\n", .before = before, .has = {"towers = 'cpu'"}},
        {.flags = resume, .before = before, .error = "looked for devices", .usage = false},
        {.flags = resume + " --towers a", .before = before, .error = "looked for devices", .usage = false},
        {.flags = "--towers cpu,cpu --batch 4 --shares @HERE/recorded",
         .recorded = {.metrics = "{\"step\":0,\"shares\":[6,2]}\n", .times = recorded},
         .has = {"recorded 2:6 from step 0", "[notes tower_1 (cpu) takes the shares of a (D)"}},
    };
    for (const Row& row : rows) check(row, blind);
}

TEST_CASE("recorded shares go to the towers with the devices of the run that recorded them") {
    const std::string one = R"({"event":"start","step":0,"time":1.5,"towers":[{"device":"a","name":"B"},)"
                            R"({"device":"b","name":"A"}]})"
                            "\n",
                      two = R"({"event":"resume","step":3,"time":2.5,"towers":[{"device":"a","name":"A"},)"
                            R"({"device":"b","name":"D"}]})"
                            "\n",
                      three = R"({"event":"start","step":0,"time":1.5,"towers":[{"device":"a","name":"B"}]})"
                              "\n",
                      twice = R"({"event":"start","step":0,"time":1.5,"towers":[{"device":"a","name":"B"},)"
                              R"({"device":"a","name":"B"}]})"
                              "\n";
    const std::string metrics = "{\"step\":0,\"shares\":[6,2],\"micro_batches\":[2,1]}\n"
                                "{\"step\":4,\"shares\":[1,7]}\n";
    const auto row = [&](const char* towers, const std::string& times, std::vector<std::string> has) {
        return Row{.flags = std::string("--shares @HERE/recorded --batch 4 --towers ") + towers,
                   .recorded = {.metrics = metrics, .times = times},
                   .has = std::move(has)};
    };
    const Row rows[] = {
        row("b,a", one, {"recorded 6:2 in 2:1 from step 0, 1:7 from step 4]", "[notes ]"}),
        row("a,b", one,
            {"recorded 2:6 in 1:2 from step 0, 7:1 from step 4]",
             "[notes the shares follow the devices of HERE/recorded, whose order is --towers b,a; the last "
             "bits of "
             "the results depend on it]"}),
        // The other device takes the other share.
        row("c,b", one,
            {"recorded 2:6 in 1:2 from step 0, 7:1 from step 4]",
             "[notes tower_0 (c) takes the shares of b (A) in HERE/recorded]"}),
        row("b,b", one,
            {"recorded 6:2 in 2:1 from step 0", "[notes tower_1 (b) takes the shares of b (A) in"}),
        row("b,b", twice, {"recorded 6:2 in 2:1 from step 0", "[notes ]"}),
        // From step 3 on it had others.
        row("b,a", one + two,
            {"recorded 6:2 in 2:1 from step 0, 7:1 from step 4]",
             "[notes tower_0 (b) takes the shares of b (D) in HERE/recorded]"}),
        row("b,a", three, {"recorded 6:2 in 2:1 from step 0, 1:7 from step 4]", "[notes ]"}),
        row("a,b", "", {"recorded 6:2 in 2:1 from step 0, 1:7 from step 4]", "[notes ]"}),
    };
    for (const Row& each : rows) check(each);
    // A damaged file is as none.
    check(row("a,b", one + "{\"event\":1}\n",
              {"recorded 6:2 in 2:1 from step 0, 1:7 from step 4]", "[notes ]"}));
}

TEST_CASE("what does not fit together is refused in one line") {
    const std::string groups =
        "--towers cpu,cpu --recipe cifar10-resnet20 --set defaults.batch_norm.group=32 ";
    const std::string hundred = groups + "--global-batch 100", least = groups + "--global-batch 32";
    const std::string offer = "give auto, even, a ratio such as 3:1, or @ and the path of a run";
    const Row rows[] = {
        {.flags = "--steps 5 --epochs 1",
         .error = "--steps and --epochs both say how long to train; give one of them"},
        {.flags = "--batch 5 --global-batch 10",
         .error = "--batch and --global-batch both say how many examples a step takes; give one of them"},
        {.flags = "--batch 5",
         .config = "global-batch = 10\nbatch = 5\n",
         .error =
             "HERE/config.toml:1: 'batch' and 'global-batch' set the same thing in two ways; give one of "
             "them",
         .usage = false},
        {.flags = "--towers a --backend gpu",
         .error = "--towers and --backend both say which devices to use; give one of them"},
        {.flags = "--global-batch 3000000", .error = "--global-batch 3000000: give 1 to 1048576"},
        {.flags = "--global-batch 1 --towers a,b",
         .error = "--global-batch 1: 2 towers need an example each; give at least 2"},
        {.flags = least,
         .error =
             "--global-batch 32: the recipe's batch norm takes groups of 32 examples, and each tower one "
             "or more; give 64 or a larger multiple of 32"},
        {.flags = hundred,
         .error = "--global-batch 100: the recipe's batch norm takes groups of 32 examples, and each tower "
                  "one or more; give 64 or a larger multiple of 32"},
        {.flags = "--lr nan", .error = "--lr nan: give a number of at least 0, within a float's range"},
        {.flags = "--lr 1e39", .error = "--lr 1e+39: give a number of at least 0, within a float's range"},
        {.flags = "--epochs 0", .error = "--epochs 0: give a number above 0"},
        {.flags = "--on-device-loss panic", .error = "--on-device-loss 'panic': give continue or stop"},
        {.flags = "--device-timeout -1",
         .error = "--device-timeout -1: give a number of seconds of at least 0"},
        {.flags = "--towers a,b --shares fast", .error = "--shares 'fast': " + offer},
        {.flags = "--towers a,b --shares 3:x", .error = "--shares '3:x': " + offer},
        {.flags = "--towers a,b --shares @HERE/none",
         .error = "--shares '@HERE/none': there is no such file; give @ and the path of a run or of its "
                  "metrics.jsonl"},
        {.flags = "--towers a,b --shares @HERE/folder",
         .error = "--shares '@HERE/folder': the folder has no metrics.jsonl; give @ and the path of a run"},
        {.flags = "--resume --run HERE/run --shares @HERE/run",
         .before = {.metrics = "{\"step\":0}\n"},
         .error = "--shares '@HERE/run': this run is going to change the file; give a copy of it"},
        {.flags = "--towers a,b --shares @HERE/shares.jsonl --batch 4",
         .error = "--shares: from step 0 on they were 9:7, which are 16 examples a step, and this run takes "
                  "8; give --global-batch 16"},
        {.flags = "--towers a,b --shares @HERE/three.jsonl",
         .error =
             "--shares: from step 7 on they were 4:8:4, of 3 towers, and this run has 2; give as many as "
             "the run that recorded them"},
        {.flags = "--towers a,b --shares @HERE/negative.jsonl",
         .error = "--shares: HERE/negative.jsonl:1: is no line of a run's metrics.jsonl"},
        {.flags = "--towers a,b --shares @HERE/text.jsonl",
         .error = "--shares: HERE/text.jsonl:1: is no line of a run's metrics.jsonl"},
        {.flags = "--towers a,b --shares @HERE/single.jsonl",
         .error = "--shares '@HERE/single.jsonl': the file tells of no shares, as early versions' of one "
                  "tower; give @ and the path of another run"},
        {.flags = "--resume", .error = "--resume: name the run with --run DIR"},
        {.flags = "--resume-from 3", .error = "--resume: name the run with --run DIR"},
        {.flags = "--resume-from 3 --run HERE/run",
         .error = "HERE/run holds no checkpoint of step 3; choose one of 0, 2, 4",
         .usage = false},
        {.flags = "--resume --run HERE/run --init HERE/x",
         .error = "--init: a resumed run starts from its checkpoint's variables; leave out --init or start "
                  "another run"},
        {.flags = "--resume --run HERE/run",
         .config = "init = 'x'\n",
         .error = "--init: a resumed run starts from its checkpoint's variables; leave out --init or start "
                  "another run"},
        {.flags = "--resume --run HERE/run",
         .before = {.config = ""},
         .error = "--steps: HERE/run/config.toml does not say how long to train; give --steps or --epochs"},
        {.flags = "--resume --run HERE/run",
         .before = {.trained = "lr = 0.1\n", .config = ""},
         .error =
             "neither HERE/run/model.ckpt-4.safetensors nor HERE/run/config.toml says which settings the "
             "run was trained with; give them with --config FILE",
         .usage = false},
    };
    for (const Row& row : rows) check(row);
}

} // namespace towers
