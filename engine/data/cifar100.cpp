// The binary version of CIFAR-100: train.bin and test.bin, whose records have two labels, of 20 coarse and
// 100 fine classes, and the classes' names in coarse_label_names.txt and fine_label_names.txt.
#include "engine/data/cifar_files.h"
#include "engine/data/formats.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace towers {
namespace {

namespace fs = std::filesystem;

struct Labels {
    std::string_view wish; ///< after the folder
    std::string_view names_file;
    unsigned classes;
};
/// By the place of the label in a record. Without a wish the fine labels are read.
constexpr std::array<Labels, 2> kinds = {
    {{"?labels=coarse", "coarse_label_names.txt", 20}, {"?labels=fine", "fine_label_names.txt", 100}}};

struct Found {
    fs::path folder; ///< empty: none
    unsigned kind;
};

Found find(std::string source) {
    unsigned kind = 1;
    for (unsigned i = 0; i < kinds.size(); ++i)
        if (source.ends_with(kinds[i].wish)) {
            source.resize(source.size() - kinds[i].wish.size());
            kind = i;
        }
    // CIFAR-10 has other names; any data set may have a train.bin.
    fs::path folder = find_cifar(source, "cifar-100-binary", {std::string(kinds[kind].names_file)});
    return {std::move(folder), kind};
}

} // namespace

const DataFormat& cifar100_format() {
    static constexpr DataFormat format{
        .name = "CIFAR-100's",
        .more = {},
        .files = {"train.bin", "test.bin"},
        .recognizes = [](const std::string& source, Split) { return !find(source).folder.empty(); },
        .open =
            [](const DataRequest& request) {
                const auto [folder, kind] = find(request.source);
                const Labels& labels = kinds[kind];
                // Training and `data describe` open both splits, and one line is enough.
                std::vector<std::string> classes = read_class_names(
                    folder / labels.names_file, labels.classes, request.split == Split::train);
                for (unsigned i = unsigned(classes.size()); i < labels.classes; ++i)
                    classes.push_back(std::to_string(i));
                return open_cifar(
                    {.name = "cifar100",
                     .files = {folder / (request.split == Split::train ? "train.bin" : "test.bin")},
                     .most = request.split == Split::train ? 50'000u : 10'000u,
                     .label_bytes = 2,
                     .label = kind,
                     .classes = std::move(classes)});
            }};
    return format;
}

} // namespace towers
