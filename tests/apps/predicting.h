// A run whose pictures `towers predict` sees.
#pragma once

#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <string>

namespace towers::test {

/// A picture of tests/fixtures/pictures.
inline std::string fixture(const char* name) {
    return (source_folder() / "tests/fixtures/pictures" / name).string();
}

/// A run on random records, and the same records as PNG files.
struct Trained {
    TemporaryFolder folder;
    std::string run = (folder / "run").string(), files = (folder / "files").string(),
                data = (folder / "data").string();

    explicit Trained(const Arguments& flags = {}) {
        write_records(data, 10);
        const Outcome trained =
            run_towers(Arguments{"train", "--towers", "cpu", "--steps", "3", "--data", data, "--run", run} +
                       (flags.empty() ? Arguments{"--batch", "4"} : flags));
        CHECK(trained.code == 0);
        check_worked(run_towers({"data", "import", data, files, "--as", "folder"}));
    }
    Outcome predict(const Arguments& arguments, const RunOptions& options = {}) const {
        return run_towers(Arguments{"predict", run, "--towers", "cpu"} + arguments, options);
    }
    /// The last words of the shell's command line are those of `towers predict`.
    Outcome predict_in_shell(const std::string& before, const std::string& arguments) const {
        return Program({"sh", "-c",
                        fmt::format("{} '{}' predict '{}' --towers cpu {}", before, TOWERS_PROGRAM, run,
                                    arguments)})
            .end();
    }
};

} // namespace towers::test
