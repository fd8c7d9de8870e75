// Reads the files of a run that have a JSON object on each line.
#pragma once

#include "backends/error.h"
#include "backends/files/file.h"

#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace towers {

/// Calls `read` with each line of the file, and with a function that refuses the line with an InputError.
/// Ignores an incomplete last line. `name`: what the file of a run is called.
template<class Read>
void for_each_json_line(const std::filesystem::path& file, const char* name, const Read& read) {
    std::string all = read_file(file);
    all.resize(all.rfind('\n') + 1); // drops a line that a crash cut off or another program is still writing
    std::istringstream lines(all);
    std::string text;
    for (int number = 1; std::getline(lines, text); ++number) {
        const auto complain = [&] {
            throw InputError(fmt::format("{}:{}: is no line of a run's {}", file.string(), number, name));
        };
        const nlohmann::json line = nlohmann::json::parse(text, nullptr, false);
        if (!line.is_object()) complain();
        read(line, complain);
    }
}

} // namespace towers
