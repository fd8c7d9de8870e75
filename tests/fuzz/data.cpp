// A fuzzer for a format of data sets: writes what libFuzzer gives as the files of a set, opens it and reads
// all of its records. The macro FUZZED names the format. Only an InputError with one line may come of it.
#include "backends/backend.h"
#include "backends/error.h"
#include "engine/data/converted.h"
#include "engine/data/formats.h"
#include "engine/data/record_file.h"
#include "engine/data/tf_example.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace towers;

/// All that the readers need of the backends.
unsigned towers::cpu_threads(unsigned) { return 1; }

namespace {

namespace fs = std::filesystem;

const fs::path folder = fs::path("/dev/shm") / ("towers-fuzz-" + std::to_string(getpid()));

void write(const char* name, std::string_view bytes) {
    std::ofstream(folder / name, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
}

/// Takes the first bytes, as many as the first one says, in 16ths of all.
std::string_view take_part(std::string_view& input) {
    if (input.empty()) return {};
    const std::size_t size = std::size_t(std::uint8_t(input[0]) % 16) * (input.size() - 1) / 16;
    const std::string_view part = input.substr(1, size);
    input.remove_prefix(1 + size);
    return part;
}

std::string idx(std::string_view input) {
    write("train-labels-idx1-ubyte", take_part(input));
    write("train-images-idx3-ubyte", input);
    return folder;
}

std::string idx_gz(std::string_view input) {
    write("train-labels-idx1-ubyte.gz", take_part(input));
    write("train-images-idx3-ubyte.gz", input);
    return folder;
}

std::string cifar(std::string_view input) {
    write("batches.meta.txt", take_part(input));
    write("data_batch_1.bin", input);
    return folder;
}

std::string cifar100(std::string_view input) {
    write("fine_label_names.txt", take_part(input));
    write("train.bin", input);
    return folder;
}

std::string tfrecord(std::string_view input) {
    write("train.tfrecord", input);
    return folder;
}

/// Records with sound checksums, which fuzzing would hardly find.
std::string tf_example(std::string_view input) {
    std::string text;
    while (!input.empty()) text += framed(take_part(input));
    write("train.tfrecord", text);
    return folder;
}

/// Two classes, since one is refused.
std::string pictures(std::string_view input) {
    fs::create_directories(folder / "train" / "a");
    fs::create_directories(folder / "train" / "b");
    write("train/a/a.jpg", take_part(input));
    write("train/b/b.png", input);
    return folder.string() + "?size=9x7";
}

/// Of two pictures that are there: a grey pixel each.
std::string table(std::string_view input) {
    using namespace std::string_view_literals;
    constexpr std::string_view picture =
        "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\0\0\0\0\x3a\x7e\x9b\x55"
        "\0\0\0\nIDAT\x78\x9c\x63\x68\0\0\0\x82\0\x81\x77\xcd\x72\xb6\0\0\0\0IEND\xae\x42\x60\x82"sv;
    for (const char* const name : {"a.png", "b.png"}) write(name, picture);
    write("T.csv", input);
    return (folder / "T.csv").string() + "?size=9x7";
}

/// The same of several labels a picture, as the first byte says.
std::string table_labels(std::string_view input) {
    constexpr std::string_view options[] = {"separator=|",  "separator=space", "separator=row",
                                            "separator=::", "label=*",         "label=2,3",
                                            "label=a,b",    "separator=",      "label=*&file=1"};
    const std::size_t chosen = input.empty() ? 0 : std::uint8_t(input[0]) % std::size(options);
    return table(input.substr(std::min<std::size_t>(1, input.size()))) + "&" + std::string(options[chosen]);
}

std::string encoded_record(std::string_view input) {
    write("train.tfrecord", framed(write_tf_example({{"image/encoded", input}}, {{"label", 0}})));
    return folder.string() + "?size=9x7";
}

std::string packed(std::string_view input) {
    write("packed", input);
    return folder / "packed";
}

void read_all(const DataSource& source) {
    std::vector<std::uint8_t> image(source.image_size().elements());
    for (std::uint32_t i = 0; i < source.size() && i < 64; ++i) source.read(std::size_t(i), 1, image);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fs::create_directory(folder);
    try {
        const std::string source = FUZZED({reinterpret_cast<const char*>(data), size});
        std::unique_ptr<DataSource> opened = open_data({.source = source, .split = Split::train});
        read_all(*opened);
        read_all(ConvertedSource(std::move(opened), {5, 7, 3}));
    } catch (const InputError& error) {
        if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::abort();
    }
    fs::remove_all(folder);
    return 0;
}
