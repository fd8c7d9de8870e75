// The binary version of CIFAR-100: train.bin and test.bin, whose records have two labels, of 20 coarse and
// 100 fine classes, and the classes' names in coarse_label_names.txt and fine_label_names.txt.
#include "backends/error.h"
#include "backends/files/file.h"
#include "engine/data/cifar_files.h"
#include "engine/data/formats.h"

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

/// Which of a record's labels the request asks for.
std::size_t wanted_label(const DataRequest& request) {
    const auto option = request.options.find("labels");
    const std::string_view wanted =
        option == request.options.end() ? "fine" : std::string_view(option->second);
    const auto labels = std::ranges::find(all_labels, wanted, &Labels::name);
    if (labels == all_labels.end())
        throw InputError(
            fmt::format("{}?labels={}: CIFAR-100's labels are fine or coarse", request.source, wanted));
    return std::size_t(labels - all_labels.begin());
}

/// `tell`: report names that are not as many as the classes. Training and `data describe` open both splits,
/// and one line is enough.
std::vector<std::string> class_names(const DataRequest& request, bool tell) {
    const Labels& labels = all_labels[wanted_label(request)];
    std::vector<std::string> names =
        read_class_names(find_folder(request.source) / labels.names_file, labels.classes, tell);
    for (auto i = unsigned(names.size()); i < labels.classes; ++i) names.push_back(std::to_string(i));
    return names;
}

std::unique_ptr<DataSource> open_cifar100(const DataRequest& request) {
    const std::size_t label = wanted_label(request);
    const fs::path folder = find_folder(request.source);
    if (folder.empty()) throw_file_error("read", request.source, ENOENT); // deleted since it was recognized
    const bool training = request.split == Split::train;
    return open_cifar({.name = "cifar100",
                       .files = {folder / (training ? "train.bin" : "test.bin")},
                       .most = training ? 50'000u : 10'000u,
                       .label_bytes = 2,
                       .label = unsigned(label),
                       .classes = class_names(request, training)});
}

} // namespace

const DataFormat& cifar100_format() {
    static constexpr DataFormat format{
        .key = "cifar100",
        .name = "CIFAR-100's",
        .more = {},
        .files = {"train.bin", "test.bin"},
        .options = {"labels"},
        .recognizes = [](const DataRequest& request) { return !find_folder(request.source).empty(); },
        .open = open_cifar100};
    return format;
}

} // namespace towers
