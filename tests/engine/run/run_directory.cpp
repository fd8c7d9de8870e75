#include "engine/run/run_directory.h"
#include "backends/files/atomic_file.h"
#include "tests/support/files.h"
#include "tests/support/says.h"

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

namespace towers {

namespace {

using test::says;

using test::input_error;
using test::names_in;
using test::read_text;
using test::write_text;
using Names = std::vector<std::string>;
using Steps = std::vector<std::uint64_t>;

TensorFile weights(float value) {
    TensorFile file;
    file.tensors["w"] = {{2}, {value, value}};
    return file;
}

std::string opening_error(const std::filesystem::path& path, Existing existing) {
    return input_error([&] { RunDirectory(path, existing); });
}

} // namespace

TEST_CASE("a run makes its folder, with parents, and all its files in it") {
    const test::TemporaryFolder folder;
    RunDirectory run(folder / "some/where/run", Existing::refuse);
    run.write_config("batch = 128\n");
    run.append_metrics(R"({"step":10})");
    run.save_checkpoint(10, weights(1), 0);
    CHECK(names_in(run.path()) == Names{"config.toml", "lock", "metrics.jsonl", "model.ckpt-10.safetensors"});
    CHECK(read_text(config_path_in(run.path())) == "batch = 128\n");
    CHECK(read_text(run.metrics_path()) == "{\"step\":10}\n");
    CHECK(read_safetensors(run.checkpoint_path(10)).tensors.at("w").values[0] == 1.0f);
}

TEST_CASE("an existing folder works as long as it holds no run") {
    const test::TemporaryFolder folder;
    write_text(folder / "notes.txt", "mine");
    { RunDirectory run(folder.path(), Existing::refuse); }
    { RunDirectory again(folder.path(), Existing::refuse); } // the lock file alone is not a run
    CHECK(read_text(folder / "notes.txt") == "mine");
}

TEST_CASE("a new run never touches an earlier one's files") {
    for (const char* name :
         {"config.toml", "metrics.jsonl", "model.ckpt-0.safetensors", "diverged-0.safetensors"}) {
        CAPTURE(name);
        const test::TemporaryFolder folder;
        write_text(folder / name, "earlier");
        const std::string message = opening_error(folder.path(), Existing::refuse);
        CHECK(says(message, folder.path().string() + " already holds a run"));
        CHECK(says(message, "--resume"));
        CHECK(says(message, "--run"));
        CHECK(read_text(folder / name) == "earlier");
    }
}

TEST_CASE("an impossible run directory is named") {
    const test::TemporaryFolder folder;
    write_text(folder / "file", "x");
    CHECK(says(opening_error(folder / "file", Existing::refuse), (folder / "file").string()));
    CHECK(says(opening_error(folder / "file/run", Existing::erase), (folder / "file/run").string()));
}

TEST_CASE("resuming needs a checkpoint and leaves a mistyped folder untouched") {
    const test::TemporaryFolder folder;
    CHECK(says(opening_error(folder / "none", Existing::resume), "there is no run directory"));
    CHECK(says(opening_error(folder.path(), Existing::resume), "holds no checkpoint"));
    CHECK(names_in(folder.path()).empty());
    write_text(folder / "metrics.jsonl", "");
    write_text(folder / "model.ckpt-007.safetensors", ""); // not a name that a run would use
    write_text(folder / "model.ckpt-.safetensors", "");
    write_text(folder / "model.ckpt-99999999999999999999.safetensors", "");
    CHECK(says(opening_error(folder.path(), Existing::resume), "holds no checkpoint"));
}

TEST_CASE("resuming finds the latest step by number, not by name") {
    const test::TemporaryFolder folder;
    {
        RunDirectory run(folder.path(), Existing::refuse);
        for (const std::uint64_t step : {900, 1000, 20, 0})
            run.save_checkpoint(step, weights(float(step)), 0);
    }
    RunDirectory run(folder.path(), Existing::resume);
    CHECK(checkpoint_steps(run.path()) == Steps{0, 20, 900, 1000});
    CHECK(latest_checkpoint(folder.path()) ==
          folder / "model.ckpt-1000.safetensors"); // even while a run is open
}

TEST_CASE("erasing a run deletes its files and no others") {
    const test::TemporaryFolder folder;
    const Names others = {"events.txt", "model.ckpt-5.safetensors.bak", "model.ckpt-x.safetensors",
                          "notes.tmp-1"};
    for (const std::string& name : others) write_text(folder / name, "mine");
    std::filesystem::create_directory(folder / "sub");
    write_text(folder / "sub/config.toml", "mine");
    for (const char* name :
         {"config.toml", "metrics.jsonl", "model.ckpt-5.safetensors", "model.ckpt-70.safetensors",
          "model.ckpt-80.safetensors.tmp-123", "diverged-70.safetensors"})
        write_text(folder / name, "the run's");
    RunDirectory run(folder.path(), Existing::erase);
    Names expected = others;
    expected.insert(expected.begin() + 1, "lock");
    expected.push_back("sub");
    CHECK(names_in(folder.path()) == expected);
    CHECK(read_text(folder / "sub/config.toml") == "mine");
}

TEST_CASE("two runs never share a folder") {
    const test::TemporaryFolder folder;
    {
        RunDirectory run(folder.path(), Existing::refuse);
        run.save_checkpoint(1, weights(1), 0);
        for (const Existing existing : {Existing::refuse, Existing::resume, Existing::erase})
            CHECK(says(opening_error(folder.path(), existing),
                       folder.path().string() + " is in use by another run"));
        CHECK(checkpoint_steps(run.path()) == Steps{1});
    }
    RunDirectory next(folder.path(), Existing::resume);
}

TEST_CASE("a killed run can be resumed: its lock is free and its unfinished checkpoint is cleared away") {
    const test::TemporaryFolder folder;
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        RunDirectory run(folder.path(), Existing::refuse);
        run.save_checkpoint(5, weights(5), 0);
        write_text(folder / "model.ckpt-6.safetensors.tmp-1", "half");
        ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    RunDirectory run(folder.path(), Existing::resume);
    CHECK(names_in(folder.path()) == Names{"lock", "model.ckpt-5.safetensors"});
}

TEST_CASE("the newest checkpoints are kept") {
    const test::TemporaryFolder folder;
    RunDirectory run(folder.path(), Existing::refuse);
    for (std::uint64_t step = 8; step <= 12; ++step) run.save_checkpoint(step, weights(1), 3);
    CHECK(checkpoint_steps(run.path()) == Steps{10, 11, 12});
    run.save_checkpoint(13, weights(1), 0);
    CHECK(checkpoint_steps(run.path()) == Steps{10, 11, 12, 13});
    // The newest checkpoint may have diverged; the one before it has not.
    run.save_checkpoint(13, weights(2), 1);
    CHECK(checkpoint_steps(run.path()) == Steps{12, 13});
    CHECK(read_safetensors(run.checkpoint_path(13)).tensors.at("w").values[0] == 2.0f);
    run.save_checkpoint(4, weights(1), 1); // never deletes the one just written
    CHECK(checkpoint_steps(run.path()) == Steps{4, 12, 13});
}

TEST_CASE("resuming sets aside later checkpoints instead of deleting them") {
    const test::TemporaryFolder folder;
    RunDirectory run(folder.path(), Existing::refuse);
    for (std::uint64_t step = 1; step <= 3; ++step) {
        run.append_metrics("{\"step\":" + std::to_string(step - 1) + "}");
        run.save_checkpoint(step, weights(float(step)), 0);
    }
    const std::string metrics = read_text(run.metrics_path());
    CHECK(run.set_aside_after(3) == std::nullopt);
    const auto first = run.set_aside_after(2);
    REQUIRE(first == folder.path() / "replaced-1");
    CHECK(names_in(*first) == Names{"metrics.jsonl", "model.ckpt-3.safetensors"});
    CHECK(read_text(*first / "metrics.jsonl") == metrics);
    CHECK(run.set_aside_after(1) == folder.path() / "replaced-2");
    CHECK(checkpoint_steps(run.path()) == Steps{1});
    CHECK(read_safetensors(*first / "model.ckpt-3.safetensors").tensors.at("w").values[0] == 3.0f);
}

TEST_CASE("a full disk loses the new checkpoint and no earlier one") {
    const test::TemporaryFolder folder;
    RunDirectory run(folder.path(), Existing::refuse);
    run.save_checkpoint(1, weights(1), 1);
    run.write_config("a = 1\n");
    TensorFile large;
    large.tensors["w"] = {{10'000}, std::vector<float>(10'000, 1.0f)};
    {
        const test::FullDisk disk(4096);
        CHECK(says(input_error([&] { run.save_checkpoint(2, large, 1); }),
                   "cannot write " + run.checkpoint_path(2).string()));
        CHECK(says(input_error([&] { run.write_config(std::string(5000, '#')); }), "config.toml"));
    }
    CHECK(names_in(folder.path()) == Names{"config.toml", "lock", "model.ckpt-1.safetensors"});
    CHECK(read_text(config_path_in(run.path())) == "a = 1\n");
    CHECK(read_safetensors(run.checkpoint_path(1)).tensors.at("w").values[0] == 1.0f);
}

TEST_CASE("a full disk leaves whole lines of metrics, and the others follow when there is room") {
    const test::TemporaryFolder folder;
    RunDirectory run(folder.path(), Existing::refuse);
    run.append_metrics(R"({"step":1})");
    const std::string line = R"({"step":2,"text":")" + std::string(100, 'x') + "\"}";
    {
        const test::FullDisk disk(50);
        CHECK(says(input_error([&] { run.append_metrics(line); }),
                   "cannot write " + run.metrics_path().string()));
        CHECK(read_text(run.metrics_path()) == "{\"step\":1}\n");
    }
    run.append_metrics(R"({"step":3})");
    const std::string all = "{\"step\":1}\n" + line + "\n{\"step\":3}\n";
    CHECK(read_text(run.metrics_path()) == all);
    {
        const test::FullDisk disk(50);
        CHECK_THROWS_AS(run.append_metrics(R"({"step":4})"), InputError);
        CHECK_THROWS_AS(run.sync_metrics(), InputError);
    }
    run.sync_metrics();
    CHECK(read_text(run.metrics_path()) == all + "{\"step\":4}\n");
    run.sync_metrics();
    CHECK(read_text(run.metrics_path()) == all + "{\"step\":4}\n");
}

TEST_CASE("metrics reach the disk even if no save syncs them") {
    const test::TemporaryFolder folder;
    RunDirectory run(folder.path(), Existing::refuse);
    std::filesystem::create_symlink("/dev/null", run.metrics_path()); // cannot be synced
    const std::string line(300'000, 'x');
    for (int i = 0; i < 3; ++i) run.append_metrics(line);
    CHECK(says(input_error([&] { run.append_metrics(line); }), "Invalid argument"));
}

TEST_CASE("a loop of symbolic links is an error with one line") {
    const test::TemporaryFolder folder;
    std::filesystem::create_symlink(folder / "there", folder / "here");
    std::filesystem::create_symlink(folder / "here", folder / "there");
    for (const char* const name : {"here", "here/file"}) {
        CAPTURE(name);
        CHECK(says(input_error([&] { write_file_atomically(folder / name, "x"); }),
                   "Too many levels of symbolic links"));
    }
}

TEST_CASE("the error says that the disk is full") {
    const test::TemporaryFolder folder;
    RunDirectory run(folder.path(), Existing::refuse);
    std::filesystem::create_symlink("/dev/full", run.metrics_path());
    CHECK(says(input_error([&] { run.append_metrics("{}"); }), "No space left on device; free some space"));
}

TEST_CASE("a resumed run's metrics contain each step once") {
    const test::TemporaryFolder folder;
    RunDirectory run(folder.path(), Existing::refuse);
    run.truncate_lines(11); // no file yet
    CHECK_FALSE(std::filesystem::exists(run.metrics_path()));

    write_text(run.metrics_path(),
               "{\"step\":0, \"loss\":4.676}\n{\"note\":\"no step\"}\n{\"step\":10}\n"
               "{\"step\":1\n{\"step\":20}\n{\"step\":11}\n{\"step\":10,\"eval\":0.5}\n{\"step\":3");
    run.append_metrics(""); // completes the torn line, and opens the file that truncate_lines() replaces
    run.truncate_lines(11);
    const std::string kept =
        "{\"step\":0, \"loss\":4.676}\n{\"note\":\"no step\"}\n{\"step\":10}\n{\"step\":10,\"eval\":0.5}\n";
    CHECK(read_text(run.metrics_path()) == kept);
    run.append_metrics(R"({"step":20,"again":true})");
    CHECK(read_text(run.metrics_path()) == kept + "{\"step\":20,\"again\":true}\n");
    CHECK(names_in(folder.path()) == Names{"lock", "metrics.jsonl"});
}

TEST_CASE("a resumed run keeps the test pass before its checkpoint, and no later one") {
    const test::TemporaryFolder folder;
    RunDirectory run(folder.path(), Existing::refuse);
    for (const char* line : {R"({"step":3})", R"({"step":4,"test_precision":0.5})", R"({"step":4})",
                             R"({"step":5,"test_precision":0.6})"})
        run.append_metrics(line);
    run.truncate_lines(4);
    CHECK(read_text(run.metrics_path()) == "{\"step\":3}\n{\"step\":4,\"test_precision\":0.5}\n");
}

TEST_CASE("a line that a crash cut off does not merge with the next one") {
    const test::TemporaryFolder folder;
    RunDirectory run(folder.path(), Existing::refuse);
    write_text(run.metrics_path(), "{\"step\":1}\n{\"step\":2}"); // complete JSON, but not a complete line
    run.truncate_lines(5);
    CHECK(read_text(run.metrics_path()) == "{\"step\":1}\n");
}

TEST_CASE("evaluating a folder without a checkpoint gives an error that says so") {
    const test::TemporaryFolder folder;
    CHECK(says(input_error([&] { latest_checkpoint(folder.path()); }), "holds no checkpoint"));
    CHECK(says(input_error([&] { latest_checkpoint(folder / "none"); }), "there is no run directory"));
    write_text(folder / "file", "");
    CHECK(says(input_error([&] { latest_checkpoint(folder / "file"); }), "cannot read"));
}

TEST_CASE("if training deletes a checkpoint before it is read, the next one is read instead") {
    const test::TemporaryFolder folder;
    RunDirectory run(folder.path(), Existing::refuse);
    run.save_checkpoint(1, TensorFile{}, 1);
    std::vector<std::filesystem::path> tried;
    const auto read = [&](const std::filesystem::path& path) {
        tried.push_back(path);
        if (tried.size() < 3) // two more, since the one before the newest is kept
            for (const std::size_t step : {2 * tried.size(), 2 * tried.size() + 1})
                run.save_checkpoint(step, TensorFile{}, 1);
        read_safetensors(path);
    };
    read_latest_checkpoint(folder.path(), read);
    CHECK(tried == std::vector{run.checkpoint_path(1), run.checkpoint_path(3), run.checkpoint_path(5)});

    // A bad checkpoint is neither tried forever nor replaced by an earlier one.
    write_text(run.checkpoint_path(6), "bad");
    CHECK(says(input_error([&] { read_latest_checkpoint(folder.path(), read); }), "model.ckpt-6"));
    CHECK(tried.size() == 4);
    CHECK(says(input_error([&] { read_latest_checkpoint(folder / "none", read); }),
               "there is no run directory"));
}

TEST_CASE("the names that a run uses in its folder are known, the lock's among them") {
    for (const char* name : {"config.toml", "recipe.toml", "metrics.jsonl", "model.ckpt-12.safetensors",
                             "diverged-3.safetensors", "events.out.tfevents.1764087329.towers", "lock"})
        CHECK_MESSAGE(is_taken_by_run(name), name);
    for (const char* name :
         {"trace.json", "model.ckpt-best.safetensors", "model.ckpt-03.safetensors", "lock2"})
        CHECK_MESSAGE(!is_taken_by_run(name), name);
}

} // namespace towers
