// The reported precision must cover the whole test set and count each image once.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <cmath>
#include <csignal>
#include <doctest/doctest.h>
#include <regex>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

struct Result {
    double precision = -1;
    unsigned correct = 0, examples = 0;
    double cross_entropy = -1;
};

/// Checks the form of eval's output and reads the numbers from it.
Result evaluate(const Arguments& flags) {
    const Outcome outcome = run_towers(Arguments{"eval", "--towers", "cpu"} + flags);
    check_worked(outcome);
    CAPTURE(outcome.out);
    const std::vector<std::string> lines = lines_of(outcome.out);
    REQUIRE(lines.size() == 4); // precision @ 5, and what the classes' figures come to
    const std::regex first(R"(^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}: precision @ 1 = ([01]\.\d{3})$)");
    const std::regex second(R"(^(\d+) of (\d+) examples, cross entropy (\d+\.\d{3}), .*$)");
    std::smatch a, b;
    REQUIRE(std::regex_match(lines[0], a, first));
    REQUIRE(std::regex_match(lines[1], b, second));
    const Result result{std::stod(a[1]), unsigned(std::stoul(b[1])), unsigned(std::stoul(b[2])),
                        std::stod(b[3])};
    CHECK(std::abs(result.precision - double(result.correct) / result.examples) < 0.0006);
    return result;
}

} // namespace

TEST_CASE("the evaluation counts every example once with any batch size") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    const fs::path data = folder / "data";
    check_worked(run_towers({"data", "shapes", data.string()}));
    for (const std::string& name : names_in(data)) // a tenth of each, which take less time
        if (name.ends_with(".bin")) fs::resize_file(data / name, 200 * 3073);
    train(run, {"--steps", "20", "--batch", "16", "--data", data.string()});
    const Arguments it{"--run", run.string()};

    const Result result = evaluate(it);
    CHECK(result.examples == 200);
    for (const char* batch : {"30", "500"}) {
        const Result other = evaluate(it + Arguments{"--batch", batch});
        CHECK(other.examples == 200);
        CHECK(other.correct <= result.correct + 1); // another summation order may decide a tie differently
        CHECK(result.correct <= other.correct + 1);
    }
    CHECK(evaluate({"--checkpoint", checkpoint(run, 20).string()}).correct == result.correct);
    CHECK(evaluate(it + Arguments{"--split", "train"}).examples == 1000);

    // The quirk reproduces the published system's padding: it fills up the last of 2 batches of 128.
    CHECK(evaluate(it + Arguments{"--quirks", "padded-evaluation"}).examples == 256);
    CHECK(evaluate(it + Arguments{"--quirks", "padded-evaluation", "--batch", "50"}).examples == 200);

    // Early in training the variables themselves are far from their averages.
    const Result raw = evaluate(it + Arguments{"--raw"});
    CHECK(raw.examples == 200);
    CHECK(raw.cross_entropy != result.cross_entropy);
}

TEST_CASE("the evaluation uses the run's data and its latest checkpoint") {
    const TemporaryFolder folder;
    write_records(folder / "data", 3);
    const fs::path run = folder / "run";
    train(run, {"--steps", "11", "--batch", "2", "--save-every", "3", "--data", (folder / "data").string()});
    const Outcome outcome = run_towers({"eval", "--towers", "cpu", "--run", run.string()});
    check_worked(outcome);
    CHECK(contains(outcome.out, " of 3 examples"));
    CHECK(contains(outcome.out, "step 11, moving averages")); // not 9, which sorts after 11 as text
    CHECK(contains(run_towers({"eval", run.string(), "--towers", "cpu"}).out, "step 11, moving averages"));
    const std::string file = checkpoint(run, 9).string();
    CHECK(contains(run_towers({"eval", file, "--towers", "cpu"}).out, "step 9, moving averages"));
}

TEST_CASE("a checkpoint alone is evaluated on the data that it was trained on") {
    const TemporaryFolder folder;
    write_records(folder / "data", 3);
    train(folder / "run", {"--steps", "1", "--batch", "2", "--data", (folder / "data").string()});
    const fs::path file = folder / "file.safetensors";
    fs::copy(checkpoint(folder / "run", 1), file);
    CHECK(evaluate({"--checkpoint", file.string()}).examples == 3);
    const Outcome on_shapes =
        run_towers({"eval", "--checkpoint", file.string(), "--data", "shapes", "--towers", "cpu"});
    CHECK(contains(on_shapes.out, " of 2000 examples"));
    // If the checkpoint does not say, eval does not guess.
    RawTensors early = RawTensors::read(file);
    early.header["__metadata__"].erase("settings");
    write_text(file, early.bytes());
    check_failed(run_towers({"eval", "--checkpoint", file.string()}), 2,
                 "--data: " + file.string() + " does not say what it was trained on");
    CHECK(evaluate({"--checkpoint", file.string(), "--data", (folder / "data").string()}).examples == 3);
    // The data may be gone.
    fs::remove_all(folder / "data");
    check_failed(run_towers({"eval", "--run", (folder / "run").string()}), 1, (folder / "data").string());
}

TEST_CASE("other classes than the training's are told") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train(run, {"--steps", "1", "--batch", "2"}); // on shapes
    write_records(folder / "data", 3);
    const auto warned = [&](const Arguments& words) {
        const Outcome outcome = run_towers(words + Arguments{"--towers", "cpu"});
        CHECK(outcome.code == 0);
        return contains(outcome.out + outcome.err, checkpoint(run, 1).string() + " was trained with '");
    };
    const std::string data = (folder / "data").string();
    CHECK(warned({"eval", run.string(), "--data", data}));
    CHECK_FALSE(warned({"eval", run.string(), "--data", "shapes"}));
    const Arguments tune{"train", "--init", run.string(), "--steps", "1", "--batch", "2"};
    CHECK(warned(tune + Arguments{"--data", data, "--run", (folder / "tuned").string()}));
    CHECK_FALSE(warned(tune + Arguments{"--data", "shapes", "--run", (folder / "again").string()}));
    // Numbers are no names.
    const std::string numbered = (folder / "numbered").string();
    check_worked(run_towers({"data", "import", "shapes", numbered, "--as", "tfrecord"}));
    CHECK_FALSE(warned({"eval", run.string(), "--data", numbered}));
}

TEST_CASE("a newest checkpoint that is damaged is not evaluated, and the sound one before it is named") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train(run, {"--steps", "2", "--batch", "2", "--save-every", "1"});
    fs::resize_file(checkpoint(run, 2), 1000);
    const Outcome outcome = run_towers({"eval", "--run", run.string()});
    check_failed(outcome, 1, checkpoint(run, 2).string() + " is not a sound");
    CHECK(contains(outcome.err, "give " + checkpoint(run, 1).string() + ", which is sound"));
}

TEST_CASE("several devices share the evaluation") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train(run, {"--steps", "5", "--batch", "8"});
    const Arguments it{"eval", "--run", run.string(), "--raw"};
    const auto numbers = [](const Outcome& outcome) {
        check_worked(outcome);
        return lines_of(outcome.out).at(1);
    };
    const std::string alone = numbers(run_towers(it + Arguments{"--towers", "cpu"}));
    CHECK(contains(alone, "of 2000 examples"));
    CHECK(numbers(run_towers(it + Arguments{"--towers", "cpu,cpu,cpu"})) == alone);
    CHECK(numbers(run_towers(it + Arguments{"--backend", "cpu"})) == alone);
    check_failed(run_towers(it + Arguments{"--backend", "cpu", "--towers", "cpu"}), 2, "--backend");
    check_failed(run_towers(it + Arguments{"--towers", "cpu,vulkan:99"}), 2, "vulkan:99");
}

TEST_CASE("a model that gives NaN is not a result") {
    const TemporaryFolder folder;
    train(folder / "run", {"--steps", "1", "--batch", "2"});
    const fs::path file = checkpoint(folder / "run", 1);
    RawTensors poisoned = RawTensors::read(file);
    poisoned.forget_checksum();
    const std::size_t begin = poisoned.header["softmax_linear/weights"]["data_offsets"][0];
    poisoned.data.replace(begin, 4, "\xff\xff\xff\x7f"); // NaN
    write_text(file, poisoned.bytes());
    const Outcome outcome = run_towers({"eval", "--towers", "cpu", "--raw", "--checkpoint", file.string()});
    check_failed(outcome, 1, file.string() + ": its cross entropy is NaN");
    CHECK(outcome.out.empty());
    check_failed(run_towers({"train", "--towers", "cpu", "--steps", "1", "--init", file.string(), "--run",
                             (folder / "other").string()}),
                 1, "tensor 'softmax_linear/weights' holds NaN in place 0");
}

TEST_CASE("--interval waits for the first checkpoint") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    Program waiting(towers_command({"eval", "--towers", "cpu", "--run", run.string(), "--interval", "1"}));
    REQUIRE(waiting.wait_for_lines("waiting for the first checkpoint in " + run.string(), 1));
    train(run, {"--steps", "2", "--batch", "2"});
    CHECK(waiting.wait_for_lines("of 2000 examples", 1));
    waiting.send(SIGKILL);
    CHECK(waiting.end().err.empty());
}

TEST_CASE("--interval ends with the last checkpoint of a finished run") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train(run, {"--steps", "2", "--batch", "2"});
    const Outcome outcome = run_towers({"eval", "--towers", "cpu", "--run", run.string(), "--interval", "1"});
    check_worked(outcome);
    CHECK(outcome.out.ends_with("the run has taken all its steps, 2: there will be no newer checkpoint\n"));
    check_failed(run_towers({"eval", "--checkpoint", checkpoint(run, 2).string(), "--interval", "1"}), 2,
                 "--interval: a file gets no newer checkpoint");
}

TEST_CASE("data that does not fit the recipe is refused as train refuses it") {
    const TemporaryFolder folder;
    fs::create_directories(folder / "data"); // CIFAR-100
    std::string names;
    for (int i = 0; i < 100; ++i) names += "class\n";
    write_text(folder / "data" / "fine_label_names.txt", names);
    for (const char* name : {"train.bin", "test.bin"})
        write_text(folder / "data" / name, std::string(3074, 7));
    const fs::path run = folder / "run";
    train(run, {"--recipe", "mnist-lenet", "--steps", "1", "--batch", "2"});
    const char* const reason = "has 100 classes, but recipe mnist-lenet tells only 10 apart";
    const std::string data = (folder / "data").string();
    check_failed(run_towers({"eval", "--towers", "cpu", "--run", run.string(), "--data", data}), 1, reason);
    check_failed(
        run_towers({"train", "--towers", "cpu", "--recipe", "mnist-lenet", "--steps", "1", "--data", data}),
        1, reason);
}

TEST_CASE("a network has as many classes as it is given, and says when the data has fewer") {
    const TemporaryFolder folder;
    fs::create_directories(folder / "data"); // CIFAR-100
    std::string names;
    for (int i = 0; i < 100; ++i) names += "class\n";
    write_text(folder / "data" / "fine_label_names.txt", names);
    for (const char* name : {"train.bin", "test.bin"})
        write_text(folder / "data" / name, std::string(3074, 7));
    const auto train_with = [&](const char* classes) {
        return run_towers({"train", "--towers", "cpu", "--recipe", "mnist-lenet", "--steps", "1", "--batch",
                           "1", "--data", (folder / "data").string(), "--set", classes, "--run",
                           (folder / classes).string()});
    };
    const Outcome exact = train_with("input.classes=100"), more = train_with("input.classes=120");
    CHECK(exact.code == 0);
    CHECK_FALSE(contains(exact.out, "classes apart"));
    CHECK(more.code == 0);
    CHECK(contains(more.out, "mnist-lenet tells 120 classes apart, and " + (folder / "data").string() +
                                 " has 100; --set input.classes=100 leaves out the others\n"));
}

TEST_CASE("a trained model does better than chance") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train(run, {"--steps", "60", "--batch", "32", "--distort", "off"});
    CHECK(evaluate({"--run", run.string(), "--raw"}).precision > 0.15);
}

TEST_SUITE("slow") {
    TEST_CASE("every device evaluates alike") {
        const TemporaryFolder folder;
        write_records(folder / "data", 10);
        const fs::path run = folder / "run";
        train(run, {"--steps", "10", "--batch", "8", "--data", (folder / "data").string()});
        const Result expected = evaluate({"--run", run.string(), "--raw"});
        for (const std::string& id : other_devices()) {
            CAPTURE(id);
            const Outcome outcome = run_towers({"eval", "--towers", id, "--run", run.string(), "--raw"});
            check_worked(outcome);
            std::smatch match;
            REQUIRE(std::regex_search(outcome.out, match,
                                      std::regex(R"(of 10 examples, cross entropy (\d+\.\d{3}))")));
            CHECK(std::stod(match[1]) == doctest::Approx(expected.cross_entropy).epsilon(2e-3));
        }
    }
}
