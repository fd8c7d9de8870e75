// What a run will do follows from its flags, its configuration file and its past, in this order.
#include "tests/apps/resolved_rows.h"
#include "tests/support/environment.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace towers {

using namespace rows;

TEST_CASE("flags come before the configuration file, and that before the recipe") {
    const Row rows[] = {
        {.flags = "",
         .has = {"tune = 'auto'", "recipe = 'cifar10-tutorial'", "data = 'shapes'", "towers = 'a'", "!shares",
                 "batch = 128\n", "!global-batch", "steps = 100000\n", "lr = 0.1\n", "seed = 1\n",
                 "[global batch 128]", "[folder ]", "[refuse]", "[threads 0]", "[fixed, weights , recorded ]",
                 "[from nothing]"}},
        {.flags = "", .config = "lr = 0.2\nseed = 5\n", .has = {"lr = 0.2\n", "seed = 5\n"}},
        {.flags = "", .has = {"precision = 'fp32'\n", "round-operands = false\n", "[products fp32]"}},
        {.flags = "--set training.precision=bf16", .has = {"precision = 'bf16'\n", "[products bf16]"}},
        {.flags = "--set training.precision=bf16",
         .config = "precision = 'tf32'\n",
         .has = {"precision = 'tf32'\n", "[products tf32]"}},
        {.flags = "--precision fp16 --set training.precision=bf16",
         .config = "precision = 'tf32'\n",
         .has = {"precision = 'fp16'\n", "[products fp16]"}},
        {.flags = "--precision fp32 --set training.precision=bf16", .has = {"[products fp32]"}},
        {.flags = "--round-operands --set training.precision=bf16",
         .has = {"round-operands = true\n", "[products bf16 rounded]"}},
        {.flags = "--round-operands off",
         .config = "precision = 'bf16'\nround-operands = true\n",
         .has = {"round-operands = false\n", "[products bf16]"}},
        // What rounds nothing needs no second flag.
        {.flags = "--precision fp32",
         .config = "precision = 'bf16'\nround-operands = true\n",
         .has = {"round-operands = false\n", "[products fp32]"}},
        {.flags = "", .has = {"wire = 'fp32'\n"}},
        {.flags = "--wire bf16", .has = {"wire = 'bf16'\n"}},
        {.flags = "--wire fp32", .config = "wire = 'bf16'\n", .has = {"wire = 'fp32'\n"}},
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
        {.flags = "--resume --run HERE/run",
         .before = {.trained = Before().trained + "wire = 'bf16'\n"},
         .has = {"wire = 'bf16'\n"}},
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
        // An early version's run has no precision; others keep theirs.
        {.flags = "--resume --run HERE/run", .has = {"precision = 'fp32'\n", "[products fp32]"}},
        {.flags = "--resume --run HERE/run",
         .before = {.trained = "precision = 'bf16'\nround-operands = true\nbatch = 4\n"},
         .has = {"precision = 'bf16'\n", "[products bf16 rounded]"}},
        {.flags = "--resume --run HERE/run",
         .before = {.trained = "precision = 'bf16'\nbatch = 4\n",
                    .config = "precision = 'tf32'\nsteps = 9\n"},
         .has = {"[products tf32]"}},
        {.flags = "--resume --run HERE/run --precision fp32",
         .before = {.trained = "precision = 'bf16'\nround-operands = true\nbatch = 4\n"},
         .has = {"[products fp32]"}},
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
        {.flags = "--precision half", .error = "--precision 'half': give fp32, tf32, bf16 or fp16"},
        {.flags = "",
         .config = "precision = 'BF16'\n",
         .error = "--precision 'BF16': give fp32, tf32, bf16 or fp16"},
        {.flags = "--round-operands",
         .error =
             "--round-operands: products in fp32 round nothing; give --precision tf32, bf16 or fp16 too"},
        {.flags = "--precision fp32 --round-operands --set training.precision=bf16",
         .error =
             "--round-operands: products in fp32 round nothing; give --precision tf32, bf16 or fp16 too"},
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
        {.flags = "--wire fp16", .error = "--wire 'fp16': give fp32 or bf16"},
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
