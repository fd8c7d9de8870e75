// towers must find a bad copy of the data before it trains on it for hours.
#include "engine/data/record_file.h"
#include "engine/data/tf_example.h"
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <cstdint>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <random>
#include <sys/inotify.h>
#include <unistd.h>
#include <vector>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

constexpr unsigned record = 3073;

void check_data_refused(const fs::path& data, const std::string& named) {
    const TemporaryFolder folder;
    const RunOptions here{.folder = folder.path()};
    check_failed(run_towers({"train", "--towers", "cpu", "--steps", "1", "--data", data.string()}, here), 1,
                 named);
    CHECK(names_in(folder.path()).empty());
}

} // namespace

TEST_CASE("training warns about a bad test file when it starts") {
    const TemporaryFolder folder;
    write_records(folder.path(), 2);
    const fs::path file = folder / "test_batch.bin";
    const auto check = [&](const std::string& named) {
        const TemporaryFolder other;
        const Outcome outcome =
            run_towers({"train", "--towers", "cpu", "--steps", "1", "--batch", "2", "--data",
                        folder.path().string(), "--run", (other / "run").string()});
        CAPTURE(outcome.err);
        CHECK(outcome.code == 0); // training does not need it
        CHECK(fs::exists(checkpoint(other / "run", 1)));
        CHECK(lines_of(outcome.err).size() == 1);
        CHECK(contains(outcome.err, named));
        CHECK(contains(outcome.err, "eval needs the test examples"));
    };
    fs::resize_file(file, 100);
    check(file.string() + " is cut short");
    fs::resize_file(file, 0);
    check(file.string() + " is empty");
    fs::remove(file);
    check("has no test examples, no test_batch.bin; give some with --test-data");
}

TEST_CASE(
    "a data set imported as TFRecord files trains to the same bits, with test data apart and other colours") {
    const TemporaryFolder folder;
    write_records(folder / "cifar", 2);
    const RunOptions here{.folder = folder.path()};
    const Outcome imported = run_towers({"data", "import", "cifar", "records"}, here);
    CHECK(imported.code == 0);
    CHECK(contains(imported.out, "wrote 10 training and 2 test examples to records; train on them with: "));
    CHECK(contains(imported.out, " train --data records\n"));
    check_failed(run_towers({"data", "import", "cifar", "records"}, here), 1,
                 "records already holds a data set");
    fs::rename(folder / "records" / "test.tfrecord", folder / "held-out");

    const auto train = [&](const std::string& run, const std::vector<std::string>& data) {
        std::vector<std::string> words{
            "train",   "--recipe", "mnist-tutorial", "--towers", "cpu",   "--batch", "4",
            "--steps", "3",        "--log-every",    "1",        "--run", run,       "--data"};
        words.insert(words.end(), data.begin(), data.end());
        const Outcome outcome = run_towers(words, here);
        CHECK(outcome.code == 0);
        CHECK(lines_of(outcome.err).size() == 1);
        CHECK(contains(outcome.err,
                       ": training images of 32x32x3 are converted to 32x32x1 for mnist-tutorial"));
    };
    train("a", {"cifar"});
    train("b", {"records", "--test-data", "held-out"});
    const std::string metrics = read_text(folder / "a" / "metrics.jsonl");
    CHECK(lines_of(metrics).size() == 3);
    CHECK(metrics == read_text(folder / "b" / "metrics.jsonl"));
    // eval finds the test data that train was given, from any folder.
    const TemporaryFolder elsewhere;
    const Outcome evaluated = run_towers({"eval", "--run", (folder / "b").string(), "--towers", "cpu"},
                                         {.folder = elsewhere.path()});
    CHECK(evaluated.code == 0);
    CHECK(contains(evaluated.out, " of 2 examples"));
}

TEST_CASE("a data set is written in other formats and shown as pictures") {
    const TemporaryFolder folder;
    write_records(folder / "cifar", 10);
    const RunOptions here{.folder = folder.path()};
    check_worked(run_towers({"data", "import", "cifar", "copy", "--as", "cifar10"}, here));
    for (const char* file : {"data_batch_1.bin", "data_batch_5.bin", "test_batch.bin"})
        CHECK(read_text(folder / "copy" / file) == read_text(folder / "cifar" / file));
    check_worked(run_towers({"data", "import", "cifar", "pictures", "--as", "folder"}, here));
    CHECK(names_in(folder / "pictures") == std::vector<std::string>{"test", "train"});
    CHECK(names_in(folder / "pictures/train").size() == 10); // classes
    check_failed(run_towers({"data", "import", "cifar", "pictures", "--as", "folder"}, here), 1,
                 "pictures already holds a data set");

    const Outcome shown =
        run_towers({"data", "show", "cifar", "sheet.png", "--recipe", "cifar10-fast", "--epoch", "3"}, here);
    check_worked(shown);
    CHECK(shown.out == "wrote 40 of 50 images with their records and classes to sheet.png: as stored, and as "
                       "cifar10-fast sees them in epoch 3\n");
    CHECK(read_text(folder / "sheet.png").starts_with("\x89PNG"));
    check_worked(run_towers({"data", "show", "cifar", "mixed.png", "--recipe", "cifar10-fast", "--count", "8",
                             "--set", "mixing.mixup=0.4", "--set", "mixing.draw=example"},
                            here));
    CHECK(read_text(folder / "mixed.png") != read_text(folder / "sheet.png"));
    check_failed(run_towers({"data", "show", "cifar", "none/sheet.png"}, here), 1, "none/sheet.png");
    check_failed(run_towers({"data", "show", "cifar", "sheet.png", "--recipe", "none"}, here), 2, "none");
}

TEST_CASE("an import comes to a new folder at once, and to others with what makes it a data set last") {
    const TemporaryFolder folder;
    write_records(folder / "cifar", 10);
    const RunOptions here{.folder = folder.path()};
    const int notify = inotify_init1(IN_NONBLOCK);
    REQUIRE(notify >= 0);
    /// The names of what comes into the folder meanwhile, moved or not.
    const auto comes_into = [&](const fs::path& into, std::uint32_t events, const Arguments& command) {
        const int watch = inotify_add_watch(notify, into.c_str(), events);
        CHECK(run_towers(command, here).code == 0);
        std::vector<std::string> names;
        alignas(inotify_event) char bytes[4096];
        const ssize_t got = read(notify, bytes, sizeof bytes);
        for (ssize_t at = 0; at < got;) {
            const auto* const event = reinterpret_cast<const inotify_event*>(bytes + at);
            if (event->len > 0 && event->name[0] != '.') names.emplace_back(event->name);
            at += ssize_t(sizeof(inotify_event) + event->len);
        }
        inotify_rm_watch(notify, watch);
        return names;
    };
    CHECK(comes_into(folder.path(), IN_MOVED_TO | IN_CREATE, {"data", "import", "cifar", "new/"}) ==
          std::vector<std::string>{"new"});
    CHECK(names_in(folder.path()) == std::vector<std::string>{"cifar", "new"});
    CHECK(names_in(folder / "new") == std::vector<std::string>{"test.tfrecord", "train.tfrecord"});
    check_worked(run_towers({"data", "import", "cifar", "more/folders/new", "--as", "cifar10"}, here));
    fs::create_directory(folder / "there");
    write_text(folder / "there/notes", "");
    const std::vector<std::string> files =
        comes_into(folder / "there", IN_MOVED_TO, {"data", "import", "cifar", "there", "--as", "cifar10"});
    REQUIRE(files.size() == 7);
    CHECK(files.back() == "data_batch_1.bin");
    close(notify);
}

TEST_CASE("an import that fails leaves nothing behind") {
    const TemporaryFolder folder;
    write_records(folder / "cifar", 10);
    const RunOptions here{.folder = folder.path()};
    check_worked(run_towers({"data", "import", "cifar", "pictures", "--as", "folder"}, here));
    const fs::path broken =
        fs::recursive_directory_iterator(folder / "pictures/test/" / names_in(folder / "pictures/test")[0])
            ->path();
    fs::resize_file(broken, fs::file_size(broken) - 20);
    for (const char* as : {"tfrecord", "cifar10", "folder"}) {
        for (const char* target : {"copy", "a/b/copy"})
            check_failed(run_towers({"data", "import", "pictures", target, "--as", as}, here), 1,
                         broken.filename().string());
        CHECK(names_in(folder.path()) == std::vector<std::string>{"cifar", "pictures"});
    }
    const Outcome copied = run_towers({"data", "import", "pictures", "copy", "--skip-broken"}, here);
    CHECK(copied.code == 0);
    CHECK(contains(copied.out, "wrote 50 training and 9 test examples to copy"));
    const Outcome described = run_towers({"data", "describe", "pictures"}, here);
    CHECK(described.code == 1);
    CHECK(contains(described.out, "broken: "));
    CHECK(contains(described.out, "  replace what is broken, or leave it out with --skip-broken\n"));
    const Outcome skipped = run_towers({"data", "describe", "pictures", "--skip-broken"}, here);
    CHECK(skipped.code == 0);
    CHECK(contains(skipped.out, "broken: "));
    CHECK_FALSE(contains(skipped.out, "--skip-broken")); // it is given
}

TEST_CASE("a class with test examples only is refused where folders are written") {
    const TemporaryFolder folder;
    write_records(folder / "cifar", 10);
    const RunOptions here{.folder = folder.path()};
    const fs::path tests = folder / "cifar/test_batch.bin";
    for (int i = 1; i <= 5; ++i) {
        const fs::path file = folder / "cifar" / fmt::format("data_batch_{}.bin", i);
        std::string records = read_text(file);
        for (std::size_t k = 0; k < records.size(); k += record)
            if (records[k] == 3) records[k] = 4;
        write_text(file, records);
    }
    std::string records = read_text(tests);
    records[0] = 3;
    write_text(tests, records);
    check_failed(run_towers({"data", "import", "cifar", "pictures", "--as", "folder"}, here), 1,
                 "class cat has test examples only, which folders cannot say; write with --as tfrecord");
    CHECK_FALSE(fs::exists(folder / "pictures"));
    check_worked(run_towers({"data", "import", "cifar", "records"}, here));
}

TEST_CASE("test pictures have the labels of the training data, whatever its format") {
    const TemporaryFolder folder;
    write_records(folder / "cifar", 10);
    const RunOptions here{.folder = folder.path()};
    check_worked(run_towers({"data", "import", "cifar", "pictures", "--as", "folder"}, here));
    check_worked(run_towers({"data", "pack", "pictures", "packed"}, here));
    fs::create_directory(folder / "some");
    const std::vector<std::string> classes = names_in(folder / "pictures/train");
    fs::copy(folder / "pictures/train" / classes[1], folder / "some" / classes[1]);
    fs::copy(folder / "pictures/train" / classes[3], folder / "some" / classes[3]);
    check_worked(run_towers({"data", "pack", "some", "some-packed"}, here));
    const auto test_with = [&](const char* train, const char* test) {
        const Outcome outcome =
            run_towers({"train", "--towers", "cpu", "--batch", "4", "--steps", "2", "--run", "run", "--data",
                        train, "--test-data", test, "--eval-every", "2"},
                       here);
        CHECK(outcome.code == 0);
        const std::string text = lines_of(read_text(folder / "run/metrics.jsonl")).back();
        fs::remove_all(folder / "run");
        return text;
    };
    const std::string expected = test_with("pictures", "some");
    CHECK(contains(expected, "test_cross_entropy"));
    for (const char* train : {"pictures", "packed"})
        for (const char* test : {"some", "some-packed"}) CHECK(test_with(train, test) == expected);
    fs::rename(folder / "some" / classes[3], folder / "some/zebra");
    check_failed(
        run_towers({"train", "--data", "packed", "--test-data", "some", "--eval-every", "2", "--steps", "2"},
                   here),
        1, "zebra is none of the 10 classes of the training data");
    check_failed(
        run_towers({"train", "--data", "cifar", "--test-data", "some", "--eval-every", "2", "--steps", "2"},
                   here),
        1, "zebra is none of the 10 classes of the training data");
    check_worked(run_towers({"data", "import", "cifar", "records"}, here));
    const Outcome numbers =
        run_towers({"train", "--data", "records", "--test-data", "some", "--eval-every", "2", "--steps", "2",
                    "--batch", "4", "--towers", "cpu", "--run", "run"},
                   here);
    CHECK(numbers.code == 0);
    CHECK(contains(numbers.err, "the training's classes are numbers, and those of " +
                                    (folder / "some").string() + " get them in the order of their names\n"));
}

TEST_CASE("data describe says when classes are so unequal that training may neglect one") {
    const auto described = [](unsigned most, unsigned rare) {
        const TemporaryFolder folder;
        std::string records;
        for (unsigned i = 0; i < most + rare; ++i) {
            const std::string image(32 * 32, char(i));
            records +=
                towers::framed(towers::write_tf_example({{"image_raw", image}}, {{"label", i < rare}}));
        }
        for (const char* name : {"train.tfrecord", "test.tfrecord"}) write_text(folder / name, records);
        const Outcome outcome = run_towers({"data", "describe", folder.path().string()});
        check_worked(outcome);
        return outcome.out;
    };
    const std::string unequal = described(11, 3);
    const std::string line = "  0 has 3.67 times as many examples as 1: think of 'train --set "
                             "training.sampler=balanced', or of '--set loss.class_weights=balanced'\n";
    CHECK(contains(unequal, line));
    CHECK(unequal.find(line) == unequal.rfind(line)); // of the training split only
    CHECK(!contains(described(11, 4), "think of"));
    CHECK(!contains(unequal, "there is no example"));
}

TEST_CASE("data describe names the classes without examples") {
    const TemporaryFolder folder;
    const auto write = [&](const char* name, const std::vector<std::int64_t>& labels) {
        std::string records;
        for (const std::int64_t label : labels)
            records += towers::framed(towers::write_tf_example(
                {{"image_raw", std::string(32 * 32, char(records.size()))}}, {{"label", label}}));
        write_text(folder / name, records);
    };
    write("train.tfrecord", {0, 2, 14, 0});
    write("test.tfrecord", {14, 0, 0});
    const Outcome outcome = run_towers({"data", "describe", folder.path().string()});
    check_worked(outcome);
    const std::size_t test = outcome.out.find("\ntest: ");
    CHECK(contains(outcome.out.substr(0, test),
                   "  there is no example of 1, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more to learn from\n"));
    CHECK(contains(outcome.out.substr(test), "  there is no example of 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 3 "
                                             "more to test on; averages over classes leave it out\n"));
}

TEST_CASE("records that would be noise are told of once") {
    const TemporaryFolder folder;
    std::mt19937 random(5); // NOLINT: the same in each run
    std::string records;
    for (unsigned i = 0; i < 4; ++i) {
        std::string image(32 * 32, ' ');
        for (char& byte : image) byte = char(random() % 256);
        records += towers::framed(towers::write_tf_example({{"image_raw", image}}, {{"label", i % 2}}));
    }
    for (const char* name : {"train.tfrecord", "test.tfrecord"}) write_text(folder / name, records);
    const Outcome outcome = run_towers({"data", "describe", folder.path().string()});
    CHECK(outcome.code == 0);
    CHECK(lines_of(outcome.err).size() == 1);
    CHECK(contains(outcome.err, " has records that as pictures of 32x32x1 are noise; "));
}

TEST_CASE("a bad data file is named") {
    const TemporaryFolder folder;
    const fs::path file = folder / "data_batch_3.bin";
    write_records(folder.path(), 2);
    SUBCASE("cut short") {
        fs::resize_file(file, 2 * record - 1);
        check_data_refused(folder.path(), file.string());
    }
    SUBCASE("a byte too many") {
        fs::resize_file(file, 2 * record + 1);
        check_data_refused(folder.path(), file.string());
    }
    SUBCASE("more records than CIFAR-10 has in a file") {
        fs::resize_file(file, 10001 * record);
        check_data_refused(folder.path(), file.string());
    }
    SUBCASE("empty") {
        fs::resize_file(file, 0);
        check_data_refused(folder.path(), file.string());
    }
    SUBCASE("a label that CIFAR-10 does not have") {
        std::string text = read_text(file);
        text[record] = 10;
        write_text(file, text);
        check_data_refused(folder.path(), file.string());
    }
    SUBCASE("missing") {
        fs::remove(file);
        check_data_refused(folder.path(), file.string());
    }
    SUBCASE("a folder in its place") {
        fs::remove(file);
        fs::create_directory(file);
        check_data_refused(folder.path(), file.string());
    }
}

TEST_CASE("a folder that holds no data is named") {
    const TemporaryFolder folder;
    check_data_refused(folder / "none", (folder / "none").string());
    check_data_refused(folder.path(), folder.path().string()); // empty
    write_text(folder / "file", "x");
    check_data_refused(folder / "file", (folder / "file").string());
}

TEST_CASE("wrong class names are reported as ignored, without control characters for the terminal") {
    const TemporaryFolder folder;
    write_records(folder.path(), 2);
    const fs::path file = folder / "batches.meta.txt";
    write_text(file, "one\ntwo\nthree\n");
    const Outcome few = run_towers({"data", "describe", folder.path().string()});
    CHECK(few.code == 0);
    CHECK(few.err == "towers: " + file.string() +
                         " names 3 classes, but the records have 10; their usual names stand in for it\n");
    CHECK(contains(few.out, "  0 airplane "));
    write_text(file,
               "a\tb\n\x1b]0;title\x07\n\x1b[31mred\ncaf\u00e9\n\u009b2J\ncaf\xe9\nu\u202ev\nh\ni\nj\n");
    const Outcome odd = run_towers({"data", "describe", folder.path().string()});
    check_worked(odd);
    CAPTURE(odd.out);
    for (const char* name :
         {"  0 a?b ", "  1 ?]0;title? ", "  2 ?[31mred ", "  3 caf\u00e9 ", "  4 ?2J ", "  5 caf\ufffd "})
        CHECK(contains(odd.out, name));
}

TEST_CASE("the evaluation names a bad test file") {
    const TemporaryFolder folder;
    write_records(folder / "data", 2);
    train(folder / "run", {"--steps", "1", "--batch", "2", "--data", (folder / "data").string()});
    const fs::path file = folder / "data/test_batch.bin";
    fs::resize_file(file, record + 1);
    check_failed(run_towers({"eval", "--towers", "cpu", "--run", (folder / "run").string()}), 1,
                 file.string());
}

TEST_CASE("the shapes train the same from files") {
    const TemporaryFolder folder;
    const std::string data = (folder / "data").string();
    check_worked(run_towers({"data", "shapes", data, "--seed", "5"}));
    const Outcome description = run_towers({"data", "describe", data});
    check_worked(description);
    CHECK(contains(description.out, "train: 10000 images of 32x32x3"));
    CHECK(contains(description.out, "test: 2000 images of 32x32x3"));
    CHECK(contains(description.out, "  mean = [0."));
    CHECK(run_towers({"data", "describe", "shapes", "--seed", "5"}).out == description.out);

    const Arguments flags{"--steps", "3", "--batch", "4", "--seed", "5"};
    train(folder / "drawn", flags + Arguments{"--data", "shapes"});
    train(folder / "files", flags + Arguments{"--data", data});
    // The checkpoints differ only in the name of the data.
    const auto tensors = [&](const char* run) { return RawTensors::read(checkpoint(folder / run, 3)).data; };
    const bool same_tensors = tensors("drawn") == tensors("files");
    CHECK(same_tensors);
    CHECK(read_text(folder / "drawn/metrics.jsonl") == read_text(folder / "files/metrics.jsonl"));
}

TEST_SUITE("slow") {
    TEST_CASE("towers reads the real CIFAR-10 and trains on it") {
        const char* const data = std::getenv("TOWERS_CIFAR10");
        if (data == nullptr || *data == '\0') {
            MESSAGE("SKIPPED: TOWERS_CIFAR10 does not name a folder with CIFAR-10's binary files");
            return;
        }
        const Outcome description = run_towers({"data", "describe", data});
        check_worked(description);
        CHECK(contains(description.out, "train: 50000 images of 32x32x3"));
        CHECK(contains(description.out, "test: 10000 images of 32x32x3"));
        const TemporaryFolder folder;
        train(folder / "run", {"--data", data, "--steps", "60", "--batch", "64"});
        const auto lines = metrics(folder / "run");
        CHECK(lines.back().at("loss").get<double>() < lines.front().at("loss").get<double>());
        const Outcome evaluation =
            run_towers({"eval", "--towers", "cpu", "--run", (folder / "run").string()});
        check_worked(evaluation);
        CHECK(contains(evaluation.out, " of 10000 examples"));
    }
}
