// If the user mistypes, towers must say where, before it makes or overwrites anything.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <sstream>

using namespace towers::test;

TEST_CASE("every command has --help") {
    for (const Arguments& command : std::vector<Arguments>{{},
                                                           {"devices"},
                                                           {"train"},
                                                           {"eval"},
                                                           {"predict"},
                                                           {"parity"},
                                                           {"replay"},
                                                           {"data"},
                                                           {"data", "describe"},
                                                           {"data", "shapes"}}) {
        const Outcome outcome = run_towers(command + Arguments{"--help"});
        CAPTURE(outcome.out);
        check_worked(outcome);
        CHECK(contains(outcome.out, "Usage: "));
        CHECK(contains(outcome.out, "--help"));
    }
}

TEST_CASE("the flags that scripts rely on are there") {
    const std::string train = run_towers({"train", "--help"}).out;
    CHECK(run_towers({"help", "train"}).out == train);
    CHECK(run_towers({"help"}).out == run_towers({"--help"}).out);
    CHECK(run_towers({"help", "help"}).out == run_towers({"--help"}).out);
    check_failed(run_towers({"help", "tarin"}), 2, "there is no command 'tarin', but there is 'train'");
    for (const char* flag :
         {"--recipe",     "--data",      "--backend", "--towers",  "--batch",      "--steps",      "--epochs",
          "--lr",         "--seed",      "--distort", "--shuffle", "--init",       "--run",        "--resume",
          "--save-every", "--log-every", "--config",  "--shares",  "--log-towers", "--micro-batch"}) {
        CAPTURE(flag);
        CHECK(contains(train, "  " + std::string(flag) + " "));
    }
    const std::string eval = run_towers({"eval", "--help"}).out;
    for (const char* flag : {"--run", "--checkpoint", "--raw"}) CHECK(contains(eval, flag));
    const std::string parity = run_towers({"parity", "--help"}).out;
    for (const char* flag : {"--towers", "--steps", "--tolerance", "--json"}) CHECK(contains(parity, flag));
    CHECK(contains(run_towers({"devices", "--help"}).out, "--json"));
}

TEST_CASE("the program prints its version") {
    const Outcome outcome = run_towers({"--version"});
    check_worked(outcome);
    CHECK(outcome.out.starts_with("towers "));
    CHECK(lines_of(outcome.out).size() == 1);
}

namespace {

struct Mistake {
    Arguments arguments;
    const char* named; ///< what the message must name
};

void check_refused(const std::vector<Mistake>& mistakes) {
    const TemporaryFolder folder;
    for (const Mistake& mistake : mistakes) {
        check_failed(run_towers(mistake.arguments, {.folder = folder.path()}), 2, mistake.named);
        CHECK(names_in(folder.path()) == std::vector<std::string>{}); // no run directory
    }
}

} // namespace

TEST_CASE("an error names what does not exist") {
    check_refused({
        {{}, "subcommand"},
        {{"trian"}, "trian"},
        {{"--verion"}, "--verion"},
        {{"data", "shape"}, "shape"},
        {{"train", "--barch", "4"}, "--barch"},
        {{"train", "cpu"}, "cpu"},
        {{"train", "--recipe", "cifar11"}, "cifar11"},
        {{"train", "--towers", "vulkan:99"}, "vulkan:99"},
        {{"train", "--towers", "cpu,vulkan:99"}, "vulkan:99"},
        {{"train", "--towers", "cuda:99"}, "cuda:99"},
        {{"train", "--towers", "gpu"}, "gpu"},
        {{"train", "--towers", "cpu,,cpu"}, "--towers 'cpu,,cpu': a name is missing beside a comma"},
        {{"train", "--towers", "cpu,"}, "--towers 'cpu,': a name is missing beside a comma"},
        {{"parity", "--towers", ",cpu"}, "--towers ',cpu': a name is missing beside a comma"},
        {{"train", "--backend", "gpu"}, "gpu"},
        {{"train", "--quirks", "last-tower-los"}, "last-tower-los"},
        {{"train", "--progress", "bar"}, "bar"},
        {{"eval", "--run", "r", "--split", "dev"}, "dev"},
        {{"eval", "--run", "r", "--towers", "vulkan:99"}, "vulkan:99"},
        {{"eval", "--run", "r", "--recipe", "cifar11"}, "cifar11"},
        {{"train", "--recipe", "minst-lenet"},
         "recipe 'minst-lenet': there is no such recipe, but there is 'mnist-lenet'; choose from "},
        {{"eval", "--run", "r", "--quirks", "pad"}, "pad"},
        {{"parity", "--towers", "cpu,vulkan:99"}, "vulkan:99"},
        {{"parity", "--towers", "cpu,cpu", "--recipe", "cifar11"}, "cifar11"},
        {{"parity", "--towers", "cpu,cpu", "--lr", "1"}, "--lr"},
    });
}

TEST_CASE("OpenMP's threads do not spin for long, unless the user wants it") {
    const auto environment = [](const std::string& variable) {
        Program program({"env", "-u", "OMP_WAIT_POLICY", "-u", "GOMP_SPINCOUNT", variable,
                         "OMP_DISPLAY_ENV=verbose", TOWERS_PROGRAM, "--version"});
        const Outcome outcome = program.end();
        CHECK(outcome.code == 0);
        return outcome.err;
    };
    CHECK(contains(environment("OTHER=1"), "GOMP_SPINCOUNT = '2000'"));
    CHECK(contains(environment("GOMP_SPINCOUNT=5"), "GOMP_SPINCOUNT = '5'"));
    CHECK_FALSE(contains(environment("OMP_WAIT_POLICY=active"), "GOMP_SPINCOUNT = '2000'"));
}

TEST_CASE("a number that makes no sense is named") {
    check_refused({
        {{"train", "--batch", "0"}, "--batch"},
        {{"train", "--batch", "-1"}, "--batch"},
        {{"train", "--batch", "many"}, "--batch"},
        {{"train", "--batch", "4294967297"}, "--batch"},
        {{"train", "--batch", "3000000", "--towers", "cpu"}, "--batch"},
        {{"train", "--batch"}, "--batch"},
        {{"train", "--global-batch", "3000000", "--towers", "cpu"}, "--global-batch"},
        {{"train", "--global-batch", "0", "--towers", "cpu"}, "--global-batch '0'"},
        {{"train", "--global-batch", "1", "--towers", "cpu,cpu"},
         "--global-batch 1: 2 towers need an example each; give at least 2"},
        {{"train", "--steps", "1.5"}, "--steps"},
        {{"train", "--steps", "-1"}, "--steps"},
        {{"train", "--steps", "ten"}, "--steps"},
        {{"train", "--steps", "2", "--steps", "-5"}, "--steps '-5': give a whole number of 0 or more"},
        {{"train", "--epochs", "0"}, "--epochs"},
        {{"train", "--lr", "fast"}, "--lr"},
        {{"train", "--lr", "-0.1"}, "--lr"},
        {{"train", "--seed", "-1"}, "--seed"},
        {{"train", "--seed", "18446744073709551616"}, "--seed"},
        {{"train", "--seed", "18446744073709551615"}, "--seed"}, // config.toml keeps it, and TOML has 63 bits
        {{"train", "--save-every", "-5"}, "--save-every"},
        {{"train", "--log-every", "x"}, "--log-every"},
        {{"train", "--distort", "maybe"}, "--distort"},
        {{"train", "--shuffle", "maybe"}, "--shuffle"},
        {{"eval", "--run", "r", "--batch", "0"}, "--batch"},
        {{"data", "shapes", "folder", "--seed", "-1"}, "--seed"},
        {{"data", "shapes", "folder", "--seed", "9223372036854775808"}, "--seed"},
        {{"data", "describe", "shapes", "--seed", "18446744073709551616"}, "--seed"},
        {{"parity", "--towers", "cpu,cpu", "--batch", "0"}, "--batch"},
        {{"parity", "--towers", "cpu,cpu", "--batch", "3000000"}, "--batch"},
        {{"parity", "--towers", "cpu,cpu", "--tolerance", "-1"}, "--tolerance"},
        {{"parity", "--towers", "cpu,cpu", "--tolerance", "nan"}, "--tolerance"},
        {{"parity", "--towers", "cpu,cpu", "--steps", "-1"}, "--steps"},
        {{"parity", "--towers", "cpu,cpu", "--seed", "-1"}, "--seed"},
        {{"parity", "--towers", "cpu,cpu", "--threads", "5000"}, "--threads"},
        {{"parity", "--towers", "cpu,cpu", "--distort", "maybe"}, "--distort"},
    });
}

TEST_CASE("the message about a wrong flag names it, its value and what to give instead") {
    const std::string train = "; see 'towers train --help'\n", bench = "; see 'towers bench --help'\n";
    const std::string eval = "; see 'towers eval --help'\n", parity = "; see 'towers parity --help'\n";
    const std::string top = "; see 'towers --help'\n", data = "; see 'towers data --help'\n";
    const std::pair<Arguments, std::string> expected[] = {
        // no such thing
        {{"train", "--optimizer", "adam"}, "there is no flag '--optimizer'" + train},
        {{"train", "--barch=4"}, "there is no flag '--barch', but there is '--batch'" + train},
        {{"train", "-batch", "4"}, "there is no flag '-batch', but there is '--batch'" + train},
        {{"train", "-b"}, "there is no flag '-b'" + train},
        {{"train", "--batch", "4", "cpu"}, "'cpu' does not belong to any flag" + train},
        {{"train", "--", "cpu"}, "'cpu' does not belong to any flag" + train},
        {{"train", "eval"}, "'eval' does not belong to any flag" + train},
        {{"--backend", "cpu", "train"}, "--backend: give it after 'train'" + top},
        {{"-x"}, "there is no flag '-x'" + top},
        {{"trian"}, "there is no command 'trian', but there is 'train'" + top},
        {{"serve"}, "there is no command 'serve'" + top},
        {{"data", "shape"}, "there is no command 'shape', but there is 'shapes'" + data},
        {{"data", "shapes", "a", "b"}, "'b' does not belong to any flag; see 'towers data shapes --help'\n"},
        // what is missing
        {{},
         "give a subcommand: devices, train, eval, predict, parity, replay, bench, export, recipe, data, "
         "completion, report" +
             top},
        {{"data"}, "give a subcommand: describe, shapes, import, show, pack" + data},
        {{"data", "describe"}, "give the source; see 'towers data describe --help'\n"},
        {{"parity"}, "give --towers" + parity},
        {{"parity", "--tower", "cpu,cpu"}, "there is no flag '--tower', but there is '--towers'" + parity},
        {{"bench", "--tolerance", "0.2"}, "--tolerance: give --baseline too" + bench},
        {{"train", "--batch"}, "--batch: give a whole number of 1 or more" + train},
        {{"train", "--batch="}, "--batch: give a whole number of 1 or more" + train},
        {{"train", "--lr"}, "--lr: give a number" + train},
        {{"train", "--data"}, "--data: give a value" + train},
        {{"train", "--data", ""}, "--data: its value is empty" + train},
        {{"train", "--run", "--resume"}, "--run: give a value before --resume" + train},
        {{"train", "--data=", "--steps", "5"}, "--data: give a value before --steps" + train},
        {{"train", "--data", "--steps=5", "--batch", "8"}, "--data: give a value before --steps=5" + train},
        {{"train", "--freeze", "--steps", "5"}, "--freeze: give a value before --steps" + train},
        {{"train", "--steps", "--data", "x"}, "--steps: give a value before --data" + train},
        {{"data", "describe", ""}, "source: its value is empty; see 'towers data describe --help'\n"},
        // numbers
        {{"train", "--batch", "many"}, "--batch 'many': give a whole number of 1 or more" + train},
        {{"train", "--batch", "0"}, "--batch '0': give a whole number of 1 or more" + train},
        {{"train", "--batch", "-1"}, "--batch '-1': give a whole number of 1 or more" + train},
        {{"train", "--batch", "0x10"}, "--batch '0x10': give a whole number of 1 or more" + train},
        {{"train", "--batch", "two\nlines"}, "--batch 'two lines': give a whole number of 1 or more" + train},
        {{"train", "--batch", "4294967296"}, "--batch '4294967296': give at most 4294967295" + train},
        {{"train", "--steps", "1.5"}, "--steps '1.5': give a whole number of 0 or more" + train},
        {{"train", "--steps", "9223372036854775808"},
         "--steps '9223372036854775808': give at most 9223372036854775807" + train},
        {{"train", "--keep", "-1"}, "--keep '-1': give a whole number of 0 or more" + train},
        {{"train", "--threads", "x"}, "--threads 'x': give a whole number of 0 or more" + train},
        {{"train", "--lr", "fast"}, "--lr 'fast': give a number" + train},
        {{"train", "--epochs", "1e"}, "--epochs '1e': give a number" + train},
        {{"eval", "--batch", "x"}, "--batch 'x': give a whole number of 1 or more" + eval},
        {{"eval", "--interval", "-1"}, "--interval '-1': give a whole number of 0 or more" + eval},
        {{"bench", "--repetitions", "0"}, "--repetitions '0': give a whole number of 1 or more" + bench},
        {{"bench", "--steps", "-1"}, "--steps '-1': give a whole number of 1 or more" + bench},
        {{"bench", "--seconds", "x"}, "--seconds 'x': give a number" + bench},
        {{"bench", "--warm-up", "0"}, "--warm-up '0': give a whole number of 1 or more" + bench},
        {{"parity", "--tolerance", "x"}, "--tolerance 'x': give a number" + parity},
        // words
        {{"train", "--progress", "bar"}, "--progress 'bar': give auto or live or log" + train},
        {{"train", "--shuffle", "maybe"}, "--shuffle 'maybe': give on or off" + train},
        {{"train", "--log-towers", "maybe"}, "--log-towers 'maybe': give on or off" + train},
        {{"train", "--exact-products", "maybe"}, "--exact-products 'maybe': give on or off" + train},
        {{"train", "--resume=maybe"}, "--resume 'maybe': give on or off" + train},
        {{"parity", "--distort=maybe"}, "--distort 'maybe': give on or off" + parity},
        {{"eval", "--raw=maybe"}, "--raw 'maybe': give on or off" + eval},
        {{"eval", "--split", "dev"}, "--split 'dev': give test or train" + eval},
        // too much
        {{"train", "--batch", "2", "--batch", "3"}, "--batch: give it once, not 2 times" + train},
        {{"bench", "--seconds", "1", "--steps", "2"}, "--steps and --seconds: give one of them" + bench},
    };
    const TemporaryFolder folder;
    for (const auto& [arguments, message] : expected) {
        const Outcome outcome = run_towers(arguments, {.folder = folder.path()});
        CHECK(outcome.err == "towers: " + message);
        CHECK(outcome.code == 2);
        CHECK(names_in(folder.path()) == std::vector<std::string>{});
    }
}

TEST_CASE("every flag that switches something may stand alone, or be on or off") {
    const TemporaryFolder folder;
    const Arguments names{"--exact-products", "--eval-raw", "--keep-best", "--log-towers",
                          "--skip-broken",    "--distort",  "--shuffle"};
    const auto check_all = [&](const char* value,
                               const std::function<Arguments(const std::string&)>& written) {
        Arguments flags{"--steps", "0", "--batch", "2", "--eval-every", "1"};
        for (const std::string& name : names) flags = flags + written(name);
        train_small(folder / "run", flags);
        const std::string config = read_text(folder / "run/config.toml");
        for (const std::string& name : names) CHECK(contains(config, name.substr(2) + " = " + value + "\n"));
        std::filesystem::remove_all(folder / "run");
    };
    check_all("true", [](const std::string& name) { return Arguments{name}; });
    check_all("true", [](const std::string& name) { return Arguments{name, "on"}; });
    check_all("true", [](const std::string& name) { return Arguments{name + "=true"}; });
    check_all("false", [](const std::string& name) { return Arguments{name, "off"}; });
    check_all("false", [](const std::string& name) { return Arguments{name + "=off"}; });

    // Also beside words, which they do not take for their values
    const std::string run = (folder / "run").string(), cpu = "--towers=cpu";
    train_small(run, {"--steps", "1", "--batch", "2", "--report", "off", "--exact-products"});
    CHECK_FALSE(std::filesystem::exists(folder / "run/report.html"));
    const auto kind_of_parameters = [&](const Arguments& words) {
        const Outcome outcome = run_towers(words + Arguments{cpu});
        check_worked(outcome);
        return contains(outcome.out, "moving averages") ? "averages" : "variables";
    };
    CHECK(kind_of_parameters({"eval", run}) == "averages");
    CHECK(kind_of_parameters({"eval", "--raw", run}) == "variables");
    CHECK(kind_of_parameters({"eval", "--raw", "on", run}) == "variables");
    CHECK(kind_of_parameters({"eval", "--raw", "off", run}) == "averages");
    CHECK(kind_of_parameters({"eval", run, "--raw=false", "--exact-products", "on"}) == "averages");

    // A resumed run and a file's settings are overridden.
    train_small(run, {"--resume", "--steps", "2", "--exact-products=off"});
    CHECK(contains(read_text(folder / "run/config.toml"), "exact-products = false\n"));
    write_text(folder / "dos.toml",
               "\xef\xbb\xbfsteps = 0\r\nexact-products = true\r\nlog-towers = true\r\n");
    train_small(folder / "other", {"--config", (folder / "dos.toml").string(), "--log-towers", "off"});
    CHECK(contains(read_text(folder / "other/config.toml"), "exact-products = true\n"));
    CHECK(contains(read_text(folder / "other/config.toml"), "log-towers = false\n"));
}

TEST_CASE("a number with leading zeros is not octal") {
    const TemporaryFolder folder;
    train(folder / "run", {"--steps", "010", "--batch", "2"});
    CHECK(metrics(folder / "run").size() == 10);
}

TEST_CASE("an error stays one line when a file name contains a newline") {
    check_failed(run_towers({"eval", "--run", "two\nlines"}), 1, "two lines");
}

// resolved_run.cpp has all that a run's settings can be wrong in.
TEST_CASE("flags that contradict each other are named") {
    check_refused({
        {{"train", "--steps", "5", "--epochs", "1"}, "--epochs"},
        {{"train", "--batch", "5", "--global-batch", "10"}, "--global-batch"},
        {{"train", "--towers", "cpu", "--micro-batch", "0"}, "--micro-batch '0'"},
        {{"train", "--towers", "cpu", "--recipe", "cifar10-resnet20", "--micro-batch", "4"},
         "--micro-batch 4: batch norm takes groups of "},
        {{"train", "--towers", "cpu", "--recipe", "cifar10-resnet20", "--set",
          "defaults.batch_norm.group=batch", "--micro-batch", "4"},
         "takes the whole global batch, which cannot be done in micro-batches"},
        {{"train", "--resume-from", "3"}, "--run"},
        {{"train", "--towers", "cpu", "--backend", "cpu"}, "--backend"},
        {{"train", "--towers", "cpu,cpu", "--shares", "3:x"}, "3:x"},
        {{"train", "--towers", "cpu,cpu", "--shares", "0:1"},
         "a share of 0 leaves a tower nothing to do; leave"},
        {{"train", "--towers", "cpu,cpu", "--shares", "3:0"}, "3:0"},
        {{"train", "--towers", "cpu,cpu", "--shares", "3:-1"}, "3:-1"},
        {{"train", "--towers", "cpu,cpu", "--shares", "3:2:1"}, "3 shares for 2 towers"},
        {{"train", "--towers", "cpu", "--shares", "1:1"}, "--shares"},
        {{"train", "--resume"}, "--run"},
        {{"parity"}, "--towers"},
        {{"parity", "--towers", "cpu"}, "--towers 'cpu'"},
        {{"parity", "--towers", "cpu,cpu,cpu"}, "--towers 'cpu,cpu,cpu'"},
        {{"eval"}, "give the model: the folder of a run, or a checkpoint file"},
        {{"eval", "r", "--checkpoint", "c"},
         "--checkpoint: it is given without the flag already; give it once"},
        {{"eval", "--run", "r", "--checkpoint", "c"}, "--run and --checkpoint: give one of them"},
        {{"eval", "--checkpoint", "--towers", "cpu"}, "--checkpoint: give a value before --towers"},
        {{"eval", ""}, "model: its value is empty"},
    });
}

TEST_CASE("an unreadable configuration is named, with the line") {
    const TemporaryFolder folder;
    const auto check = [&](const char* text, const char* named) {
        write_text(folder / "c.toml", text);
        check_failed(run_towers({"train", "--config", "c.toml", "--run", "r"}, {.folder = folder.path()}), 1,
                     named);
        CHECK_FALSE(std::filesystem::exists(folder / "r"));
    };
    check("batch = \n", "c.toml:1");
    check("seed = 1\nbatch = 'four'\n", "c.toml:2: 'batch'");
    check("seed = -1\n", "c.toml:1: 'seed'");
    check("batch = 4294967297\n", "c.toml:1: 'batch'");
    check("distort = 'off'\n", "c.toml:1: 'distort' must be true or false");
    check("distort = 0\n", "c.toml:1: 'distort' must be true or false");
    check("batch = true\n", "c.toml:1: 'batch' must be a whole number");
    check("steps = 1.0\n", "c.toml:1: 'steps' must be a whole number");
    check("lr = true\n", "c.toml:1: 'lr' must be a number");
    check("data = ''\n", "c.toml:1: 'data' is empty");
    check("batch = 4\nglobal-batch = 4\n", "c.toml:2: 'batch' and 'global-batch'");
    check("data = 1\n", "c.toml:1: 'data' must be text");
    check("data = 'file:///a%2'\n", "c.toml:1: 'data' has a %");
    check("\nbarch = 4\n", "c.toml:2: there is no setting 'barch'");
    check("[train]\nbatch = 4\n", "train");
    check("trace = 't.json'\n", "c.toml:1: 'trace' is no setting of a run; give the flag --trace instead");
    // Each flag is either a setting or refused as one.
    std::istringstream help(run_towers({"train", "--help"}).out);
    for (std::string word; help >> word;) {
        if (!word.starts_with("--") || word == "--help") continue;
        write_text(folder / "c.toml", word.substr(2) + " = {}\n"); // no setting accepts a table
        const Outcome outcome = run_towers({"train", "--config", "c.toml"}, {.folder = folder.path()});
        CHECK_FALSE(contains(outcome.err, "there is no setting"));
    }
    check_failed(run_towers({"train", "--config", "none.toml"}, {.folder = folder.path()}), 1, "none.toml");
}
