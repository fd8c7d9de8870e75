// A folder of pictures that a test makes.
#pragma once

#include "engine/data/formats.h"
#include "tests/support/files.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace towers::test {

namespace fs = std::filesystem;

inline fs::path fixture(const std::string& name) {
    return source_folder() / "tests/fixtures/pictures" / name;
}

struct Folder : TemporaryFolder {
    /// Puts a copy of a fixture there.
    void put(const fs::path& to, const char* from = "rgb.png") const {
        fs::create_directories((path() / to).parent_path());
        fs::copy_file(fixture(from), path() / to);
    }
    DataRequest request(Split split = Split::train, ImageSize image = {8, 8, 3}) const {
        return {.source = path().string(), .split = split, .image = image};
    }
    std::unique_ptr<DataSource> open(Split split = Split::train) const { return open_data(request(split)); }
    std::string error(const DataRequest& wanted) const {
        const std::string message = input_error([&] { read_all(*open_data(wanted)); });
        return message.starts_with(path().string()) ? message.substr(path().string().size()) : message;
    }
    static std::vector<std::uint8_t> read_all(const DataSource& data) {
        std::vector<std::uint8_t> images(data.size() * data.image_size().elements());
        data.read(0, data.size(), images);
        return images;
    }
};

inline std::vector<std::uint32_t> labels_of(const DataSource& data) {
    return {data.labels().begin(), data.labels().end()};
}

} // namespace towers::test
