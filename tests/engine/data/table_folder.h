// A folder with a table of pictures that a test makes.
#pragma once

#include "tests/engine/data/picture_folders.h"

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace towers::test {

/// A folder with a table, T.csv, and pictures: 0.png to 9.png and id.jpg.
struct TableFolder : Folder {
    TableFolder() {
        for (int i = 0; i < 10; ++i) put(std::to_string(i) + ".png");
        put("id.jpg", "rgb.jpg");
    }
    DataRequest table(std::string_view text, const std::string& options = "",
                      Split split = Split::train) const {
        write_text(path() / "T.csv", text);
        return {.source = (path() / "T.csv").string() + options, .split = split, .image = {8, 8, 3}};
    }
    std::unique_ptr<DataSource> open(std::string_view text, const std::string& options = "",
                                     Split split = Split::train) const {
        return open_data(table(text, options, split));
    }
    /// Without the table's path.
    std::string problem(const DataRequest& request) const {
        std::string message = Folder::error(request);
        const std::string source = (path() / "T.csv").string();
        for (std::size_t at; (at = message.find(source)) != message.npos;)
            message.replace(at, source.size(), "T");
        for (std::size_t at; (at = message.find(path().string())) != message.npos;)
            message.replace(at, path().string().size(), "F");
        return message.starts_with("/T.csv") ? "T" + message.substr(6) : message;
    }
    std::string problem(std::string_view text, const std::string& options = "") const {
        return problem(table(text, options));
    }
};

inline std::vector<std::string> places_of(const DataSource& data) {
    std::vector<std::string> names;
    for (std::uint32_t i = 0; i < data.size(); ++i)
        names.push_back(fs::path(data.place_of(i)).filename().string());
    return names;
}

} // namespace towers::test
