// Classes that are called as numbers, of data whose labels are numbers.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <map>
#include <sstream>
#include <string>

using namespace towers::test;
namespace fs = std::filesystem;

TEST_CASE("classes called as numbers are these labels on both sides") {
    const TemporaryFolder folder;
    const RunOptions here{.folder = folder.path()};
    for (unsigned i = 0; i < 12; ++i) // as many pictures as its number says, and one
        for (unsigned k = 0; k <= i; ++k) {
            const fs::path path = folder / "photos" / std::to_string(i) / (std::to_string(k) + ".png");
            fs::create_directories(path.parent_path());
            fs::copy_file(source_folder() / "tests/fixtures/pictures/grey.png", path);
        }
    check_worked(run_towers({"data", "import", "photos?size=28", "records"}, here));
    check_worked(run_towers({"data", "pack", "photos?size=28", "packed"}, here));
    const auto train_on = [&](const std::string& data, const Arguments& more) {
        const Outcome outcome =
            run_towers(Arguments{"train", "--recipe", "mnist-tutorial", "--set", "input.classes=12",
                                 "--batch", "4", "--steps", "1", "--towers", "cpu", "--data", data} +
                           more,
                       here);
        CAPTURE(outcome.err);
        CHECK(outcome.code == 0);
        return outcome;
    };
    const auto examples_on = [&](const std::string& run, const Arguments& more) {
        const Outcome outcome =
            run_towers(Arguments{"eval", run, "--towers", "cpu", "--per-class"} + more, here);
        CAPTURE(outcome.err);
        CHECK(outcome.code == 0);
        CHECK_FALSE(contains(outcome.err, "numbers"));
        std::map<std::string, unsigned> examples;
        for (const std::string& line : lines_of(outcome.out)) {
            std::istringstream words(line);
            std::string name;
            unsigned count = 0;
            if (words >> name >> count && name.size() <= 2) examples[name] = count;
        }
        return examples;
    };
    std::map<std::string, unsigned> expected;
    for (unsigned i = 0; i < 12; ++i) expected[std::to_string(i)] = i + 1;
    for (const std::string trained : {"records", "photos", "packed"}) {
        train_on(trained, {"--run", "on-" + trained});
        for (const std::string tested : {"records", "photos", "packed"}) {
            CAPTURE(trained);
            CAPTURE(tested);
            CHECK(examples_on("on-" + trained, {"--data", tested}) == expected);
        }
    }
    CHECK(examples_on("on-records", {"--data", "photos", "--split", "train"}) == expected);
    const Outcome tuned = train_on("photos", {"--init", "on-records", "--run", "tuned"});
    CHECK(contains(tuned.out, "class 2 of the data is '10', and "));
    CHECK(contains(tuned.out,
                   "/on-records/model.ckpt-1.safetensors was trained with '2' for it; the last layer "
                   "begins with the weights of the classes there\n"));
    // Whichever folders are missing, and with test data of the training's own
    for (unsigned i = 0; i < 12; i += 3) {
        fs::remove_all(folder / "photos" / std::to_string(i));
        expected[std::to_string(i)] = 0;
    }
    CHECK(examples_on("on-records", {"--data", "photos"}) == expected);
    train_on("records", {"--test-data", "photos", "--eval-every", "1", "--run", "tested"});
    CHECK(examples_on("tested", {}) == expected);
    CHECK(run_towers({"report", "tested", "--towers", "cpu"}, here).code == 0);
    CHECK(contains(read_text(folder / "tested/report.html"), "\"examples\":11"));
    fs::create_directory(folder / "photos/12");
    fs::copy_file(source_folder() / "tests/fixtures/pictures/grey.png", folder / "photos/12/1.png");
    check_failed(
        run_towers({"eval", "on-records", "--towers", "cpu", "--data", "photos"}, here), 1,
        "photos: its class 12 is none of the 12 classes of the training data; call it as one of them");
}
