// Where the training images are: --feed and --readers.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>

using namespace towers::test;

TEST_CASE("--feed and --readers change no bits, config.toml keeps them, and a resumed run may change them") {
    const TemporaryFolder folder;
    const Arguments few{"--batch", "7", "--steps"};
    const Arguments streamed{"--feed", "streamed", "--readers", "3"};
    for (const Arguments& towers :
         {Arguments{"--towers", "cpu"}, {"--towers", "cpu,cpu,cpu", "--shares", "4:2:1"}}) {
        const std::string name = towers[1];
        train_small(folder / (name + "-resident"),
                    towers + Arguments{"--feed", "resident"} + few + Arguments{"8"});
        train_small(folder / (name + "-streamed"), towers + streamed + few + Arguments{"8"});
        check_same(folder / (name + "-resident"), folder / (name + "-streamed"), 8);
    }
    const auto run = folder / "parts";
    train_small(run, streamed + few + Arguments{"3"});
    const std::string config = read_text(run / "config.toml");
    CHECK(contains(config, "\nfeed = 'streamed'\nreaders = 3\n"));
    const auto resume = [&](const Arguments& more) {
        check_worked(run_towers(Arguments{"train", "--resume", "--run", run.string()} + more));
    };
    resume({"--steps", "5", "--feed", "resident"});
    CHECK(contains(read_text(run / "config.toml"), "\nfeed = 'resident'\nreaders = 3\n"));
    resume({"--steps", "8", "--feed", "streamed", "--readers", "1"});
    CHECK(contains(read_text(run / "config.toml"), "\nfeed = 'streamed'\nreaders = 1\n"));
    check_same(folder / "cpu-resident", run, 8);
    // Without the flags, the program chooses.
    train_small(folder / "auto", few + Arguments{"1"});
    const std::string chosen = read_text(folder / "auto/config.toml");
    CHECK(contains(chosen, "\nfeed = 'auto'\n"));
    CHECK_FALSE(contains(chosen, "readers"));
}

TEST_CASE("bad values of --feed and --readers are refused") {
    const TemporaryFolder folder;
    const auto train = [&](const Arguments& flags) {
        return run_towers(Arguments{"train", "--run", (folder / "run").string(), "--towers", "cpu"} + flags);
    };
    check_failed(train({"--feed", "fast"}), 2, "--feed 'fast': give auto, resident or streamed");
    check_failed(train({"--readers", "0"}), 2, "--readers");
    check_failed(train({"--readers", "257"}), 2, "--readers 257: give 1 to 256");
    check_failed(train({"--readers", "many"}), 2, "--readers 'many': give a whole number");
    write_text(folder / "config.toml", "feed = 'fast'\n");
    check_failed(train({"--config", (folder / "config.toml").string()}), 2, "--feed 'fast'");
}

TEST_CASE("a run goes on with its data packed into one file, and eval finds the test examples there") {
    const TemporaryFolder folder;
    write_records(folder / "cifar", 2);
    const RunOptions here{.folder = folder.path()};
    const auto work = [&](const Arguments& words) {
        const Outcome outcome = run_towers(words, here);
        check_worked(outcome);
        return outcome.out;
    };
    CHECK(contains(work({"data", "pack", "cifar", "packed"}),
                   "wrote 10 training and 2 test examples to packed; train on them with: "));
    check_failed(run_towers({"data", "pack", "cifar", "packed"}, here), 1, "packed is there already");
    const Arguments train{"train", "--towers", "cpu", "--batch", "4", "--run"};
    work(train + Arguments{"whole", "--data", "cifar", "--steps", "6"});
    work(train + Arguments{"parts", "--data", "cifar", "--steps", "3"});
    work({"train", "--resume", "--run", "parts", "--data", "packed", "--feed", "streamed", "--steps", "6"});
    CHECK(read_text(folder / "whole/metrics.jsonl") == read_text(folder / "parts/metrics.jsonl"));
    CHECK(variables(checkpoint(folder / "whole", 6)) == variables(checkpoint(folder / "parts", 6)));
    CHECK(contains(work({"eval", "--run", "parts", "--towers", "cpu"}), " of 2 examples"));

    check_worked(run_towers({"data", "describe", "packed"}, here));
    std::string damaged = read_text(folder / "packed");
    damaged[5000] = char(damaged[5000] ^ 1);
    write_text(folder / "damaged", damaged);
    const Outcome described = run_towers({"data", "describe", "damaged"}, here);
    CHECK(described.code == 1);
    CHECK(contains(described.out, "broken: the images or labels have another checksum; make it anew"));

    std::filesystem::resize_file(folder / "packed", 20'000);
    check_failed(run_towers(train + Arguments{"bad", "--data", "packed", "--steps", "1"}, here), 1,
                 "packed is cut short: its end is missing; make it anew with 'towers data pack'");
    // Without test examples, and of the size that a recipe takes
    std::filesystem::remove(folder / "cifar" / "test_batch.bin");
    const Outcome small = run_towers({"data", "pack", "cifar", "small", "--recipe", "mnist-tutorial"}, here);
    CHECK(small.code == 0);
    CHECK(contains(small.err, " images of 32x32x3 are converted to 32x32x1 for mnist-tutorial"));
    CHECK(contains(small.out, "wrote 10 training and 0 test examples to small"));
}
