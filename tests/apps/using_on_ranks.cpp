// What several ranks do with a trained run, and bench, under the launchers of real MPIs.
#include "backends/launch/choices.h"
#include "tests/apps/helpers.h"
#include "tests/apps/ranks_job.h"
#include "tests/support/files.h"

#include <algorithm>
#include <csignal>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

/// A trained run, its data as files, and command lines of one process and of several ranks that are to say
/// the same of it.
class Using {
public:
    Using() {
        check_worked(
            run_towers(Arguments{"train"} + job_.flags(run_, "cpu", 2) + Arguments{"--tune", "off"}));
        CHECK(run_towers({"data", "import", job_ / "data", files_, "--as", "folder"}).code == 0);
    }
    fs::path operator/(const char* name) const { return job_ / name; }
    std::string run() const { return run_; }
    std::string files() const { return files_; }
    std::string data() const { return job_ / "data"; }

    Arguments command(const Arguments& words, const std::string& towers) const {
        return towers_command(words + Arguments{"--towers", towers, "--threads", "1"});
    }
    /// Checks that the ranks, each with these towers, print and end as one process with all of them.
    void check_same(const Mpi& mpi, const Arguments& words, const std::vector<std::string>& towers) const {
        std::vector<Arguments> ranks;
        for (const std::string& each : towers) ranks.push_back(command(words, each));
        if (!mpi.colon && std::ranges::count(ranks, ranks[0]) < long(ranks.size())) return;
        const Outcome alone = ::run(command(words, fmt::format("{}", fmt::join(towers, ","))));
        const Outcome outcome = ::run(launch(mpi, ranks));
        CAPTURE(words[0]);
        CAPTURE(fmt::format("{}", fmt::join(towers, " ")));
        INFO(outcome.err);
        CHECK(without_time(outcome.out) == without_time(alone.out));
        CHECK(own_lines(outcome) == own_lines(alone));
        if (mpi.code || alone.code == 0) CHECK(outcome.code == alone.code);
    }

private:
    /// What eval prints begins with the time.
    static std::string without_time(const std::string& out) {
        const std::size_t at = out.find(": precision @ 1");
        return at == out.npos ? out : out.substr(at);
    }

    Job job_;
    std::string run_ = job_ / "trained", files_ = job_ / "files";
};

} // namespace

TEST_CASE("bench measures the run of all ranks and the exchange between them") {
    const Job its;
    for (const Mpi& mpi : mpis()) {
        CAPTURE(mpi.name);
        const fs::path report = its / (std::string(mpi.name) + ".json").c_str();
        const auto bench = [&](const Arguments& flags) {
            const Arguments command =
                towers_command(Arguments{"bench", "--towers", "cpu,cpu", "--threads", "1", "--batch", "2",
                                         "--repetitions", "2", "--steps", "2", "--warm-up", "4"} +
                               flags);
            return run(launch(mpi, {command, command}));
        };
        const Outcome outcome = bench({"--together", "--json", report.string()});
        check_started(outcome);
        CHECK(contains(outcome.out, "% of the sum of the ranks' own rates"));
        const nlohmann::json figures = nlohmann::json::parse(read_text(report));
        REQUIRE(figures.at("ranks").size() == 2);
        CHECK(figures.at("ranks")[1].at("towers") == Arguments{"1/cpu", "1/cpu"});
        CHECK(figures.at("ranks")[1].at("shares") == std::vector<unsigned>{2, 2});
        CHECK(figures.at("share_of_sum").at("min") > 0);
        // Of the 4.27 MB of the model, half go as gradients and the other half as new parameters.
        const nlohmann::json& exchange = figures.at("exchange");
        CHECK(double(exchange.at("sent_bytes")) == doctest::Approx(4.0 * 1068298).epsilon(.01));
        CHECK(exchange.at("step_us").at("min") > 0);

        const Outcome refused = bench({});
        check_failed(mpi, refused);
        CHECK(contains(refused.err, "give --together"));
    }
}

TEST_CASE("ranks evaluate as the same towers of one process") {
    const Using its;
    for (const Mpi& mpi : mpis()) {
        CAPTURE(mpi.name);
        // 8 test examples: batches of any number, also fewer than towers
        its.check_same(mpi, {"eval", its.run(), "--batch", "3", "--per-class"}, {"cpu", "cpu"});
        its.check_same(mpi, {"eval", its.run(), "--raw", "--batch", "1", "--split", "train"},
                       {"cpu", "cpu,cpu"});
        const std::string confusion = its / (std::string(mpi.name) + ".csv").c_str();
        its.check_same(mpi, {"eval", its.run(), "--confusion", confusion}, {"cpu", "cpu", "cpu"});
        CHECK(fs::exists(confusion));
        // What a rank that follows does again and again
        its.check_same(mpi, {"eval", its.run(), "--interval", "1"}, {"cpu", "cpu"});
    }
}

TEST_CASE("ranks predict as the same towers of one process") {
    const Using its;
    const std::string pictures = its.files() + "/test", list = its / "list";
    std::string names = fmt::format("{}\n", (its / "nothing.png").string());
    for (const auto& each : fs::recursive_directory_iterator(pictures))
        if (each.is_regular_file() && names.find("png", names.find("png") + 3) == names.npos)
            names += each.path().string() + "\n";
    write_text(list, names);
    write_text(its / "broken.png", "no picture");
    for (const Mpi& mpi : mpis()) {
        CAPTURE(mpi.name);
        const Arguments all{"predict", its.run(), pictures, its / "broken.png"};
        its.check_same(mpi, all + Arguments{"--json", "--scores", "--batch", "2"}, {"cpu", "cpu"});
        its.check_same(mpi, all + Arguments{"--csv", "--raw", "--batch", "1", "--skip-broken"},
                       {"cpu", "cpu,cpu"});
        // One picture and three towers, and one that is not there
        its.check_same(mpi, {"predict", its.run(), "--files-from", list}, {"cpu", "cpu", "cpu"});
    }
}

TEST_CASE("ranks that cannot evaluate or predict together are refused with one line") {
    const Using its;
    write_records(its / "other", 4);
    for (const char* name : {"here/a.png", "here/b.png", "there/a.png"}) {
        fs::create_directories((its / name).parent_path());
        write_text(its / name, "no picture");
    }
    write_text(its / "there/b.png", "none");
    for (const Mpi& mpi : mpis()) {
        CAPTURE(mpi.name);
        const auto ranks = [&](const Arguments& first, const Arguments& second) {
            return run(launch(mpi, {its.command(first, "cpu"), its.command(second, "cpu")}));
        };
        const Arguments eval{"eval", its.run()};
        check_refused(mpi, ranks({"eval", its / "nothing"}, {"eval", its / "nothing"}),
                      "there is no run or checkpoint");
        if (!mpi.colon) continue;
        check_refused(mpi, ranks(eval, eval + Arguments{"--data", its / "other"}),
                      "has other data: 4 examples");
        check_refused(mpi, ranks(eval, eval + Arguments{"--batch", "7"}), "give all ranks the same flags");
        const auto predict_in = [&](const char* folder) {
            return Arguments{"env", "-C", its / folder} +
                   its.command({"predict", its.run(), "a.png", "b.png", "--batch", "1"}, "cpu");
        };
        check_refused(mpi, run(launch(mpi, {predict_in("here"), predict_in("there")})),
                      "b.png has 4 bytes, and for rank 0 (");
        // Rank 1 needs neither run nor checkpoint, and has its own copy of the data.
        fs::copy(its / "data", its / "copy",
                 fs::copy_options::recursive | fs::copy_options::overwrite_existing);
        const Outcome apart = ranks(eval + Arguments{"--data", its / "data"},
                                    {"eval", its / "nothing", "--data", its / "copy"});
        check_started(apart);
        CHECK(contains(apart.out, " of 8 examples"));
    }
}

TEST_CASE("a rank that is killed ends an evaluation with one line") {
    const Using its;
    fs::remove(its / "trained/config.toml"); // it goes on for all that is known
    for (const Mpi& mpi : mpis())
        for (const unsigned rank : {0u, 1u}) {
            CAPTURE(mpi.name);
            CAPTURE(rank);
            const std::string mark = fmt::format("{}-{}-{}", its.run(), mpi.name, rank);
            const Arguments command = its.command({"eval", its.run(), "--interval", "1"}, "cpu");
            Program program(launch(mpi, {command, command}), marked(mark));
            REQUIRE(program.wait_for_lines("precision @ 1", 1));
            ::kill(process_of(mpi, mark, rank), SIGKILL);
            const Outcome outcome = program.end();
            check_failed(mpi, outcome);
            const std::vector<std::string> lines = own_lines(outcome);
            INFO(outcome.err);
            CHECK(lines.size() <= 1); // MPICH's launcher may end the others before they can speak
            if (std::string(mpi.name) == "openmpi") {
                REQUIRE(lines.size() == 1);
                CHECK(contains(lines[0], fmt::format("rank {} (", rank)));
                CHECK(lines[0].ends_with("its process has ended"));
            }
        }
}
