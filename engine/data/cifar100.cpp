// The binary version of CIFAR-100: train.bin and test.bin, whose records have two labels, of 20 coarse and
// 100 fine classes, and the classes' names in coarse_label_names.txt and fine_label_names.txt.
#include "engine/data/cifar_files.h"
#include "engine/data/formats.h"
#include "engine/error.h"
#include "engine/files/file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fmt/format.h>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace towers {
namespace {

namespace fs = std::filesystem;

struct Labels {
    std::string_view name, names_file;
    unsigned classes;
};
/// By the place of the label in a record.
constexpr std::array<Labels, 2> all_labels = {
    {{"coarse", "coarse_label_names.txt", 20}, {"fine", "fine_label_names.txt", 100}}};

/// CIFAR-10 has no such file, while any data set may have a train.bin.
fs::path find_folder(const std::string& source) {
    return find_cifar(source, "cifar-100-binary", {std::string(all_labels[1].names_file)});
}

std::unique_ptr<DataSource> open_cifar100(const DataRequest& request) {
    const auto wish = request.wishes.find("labels");
    const std::string_view wanted = wish == request.wishes.end() ? "fine" : std::string_view(wish->second);
    const auto labels = std::ranges::find(all_labels, wanted, &Labels::name);
    if (labels == all_labels.end())
        throw InputError(
            fmt::format("{}?labels={}: CIFAR-100's labels are fine or coarse", request.source, wanted));
    const fs::path folder = find_folder(request.source);
    if (folder.empty()) throw_file_error("read", request.source, ENOENT); // deleted since it was recognized
    const bool training = request.split == Split::train;
    // Training and `data describe` open both splits, and one line is enough.
    std::vector<std::string> classes =
        read_class_names(folder / labels->names_file, labels->classes, training);
    for (auto i = unsigned(classes.size()); i < labels->classes; ++i) classes.push_back(std::to_string(i));
    return open_cifar({.name = "cifar100",
                       .files = {folder / (training ? "train.bin" : "test.bin")},
                       .most = training ? 50'000u : 10'000u,
                       .label_bytes = 2,
                       .label = unsigned(labels - all_labels.begin()),
                       .classes = std::move(classes)});
}

} // namespace

const DataFormat& cifar100_format() {
    static constexpr DataFormat format{
        .key = "cifar100",
        .name = "CIFAR-100's",
        .more = {},
        .files = {"train.bin", "test.bin"},
        .wishes = {"labels"},
        .recognizes = [](const DataRequest& request) { return !find_folder(request.source).empty(); },
        .open = open_cifar100};
    return format;
}

} // namespace towers
