#include "engine/data/formats.h"
#include "engine/data/cifar10.h"
#include "engine/data/shapes.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>

#include <filesystem>

namespace towers {

TEST_CASE("help and messages name every format, once and in one order") {
    CHECK(data_help(true) ==
          "a folder with CIFAR-10's binary files, CIFAR-100's, MNIST's, TFRecord files, "
          "JPEG, PNG and WebP files (a folder for each class), a table of pictures and classes (.csv or "
          ".tsv) or a packed file, or 'shapes' (ten classes of drawn shapes)");
    CHECK(data_help(false) == "a folder with CIFAR-10's binary files, CIFAR-100's, MNIST's, TFRecord files, "
                              "JPEG, PNG and WebP files (a folder for each class), a table of pictures and "
                              "classes (.csv or .tsv) or a packed file, or 'shapes'");
    CHECK(what_to_give() == "give " + data_help(false) + ", which needs no files");
}

TEST_CASE("a source is opened by the format that recognizes it") {
    const test::TemporaryFolder folder;
    const std::string path = (folder / "shapes").string(); // a path, whatever its last part is
    write_cifar10(make_shapes(Split::train, 3, {32, 32, 3}, 50), Split::train, path);
    CHECK(open_data({path, Split::train})->info().name == "cifar10");
    CHECK(open_data({path, Split::train})->size() == 50);
    CHECK(is_path(path));

    const auto drawn = open_data({"shapes", Split::test, 3, {16, 20, 1}});
    CHECK(drawn->info().name == "shapes");
    CHECK(drawn->image_size() == ImageSize{16, 20, 1});
    CHECK(drawn->checksum() == make_shapes(Split::test, 3, {16, 20, 1}).checksum());
    CHECK_FALSE(is_path("shapes"));
    CHECK(is_path("./shapes"));
    CHECK(is_path(""));
}

TEST_CASE("what no format recognizes is refused with what each format would take") {
    const test::TemporaryFolder folder;
    const auto refusal = [&](const std::filesystem::path& path, Split split) {
        return test::input_error([&] { open_data({path.string(), split}); });
    };
    const std::string nowhere = (folder / "nowhere").string(), empty = folder.path().string();
    const char* const check = "; check the path, or use shapes, which needs no files";
    CHECK(refusal(nowhere, Split::train) == "there is no file or folder " + nowhere + check);
    std::filesystem::create_directory(folder / "now here");
    CHECK(refusal(nowhere, Split::train) ==
          "there is no file or folder " + nowhere + ", but there is now here" + check);
    std::filesystem::remove(folder / "now here");
    CHECK(refusal("shape", Split::train) ==
          std::string("there is no file or folder shape, but there is shapes") + check);
    const char* const remedy = "; put CIFAR-10's binary files, CIFAR-100's, MNIST's, TFRecord files, JPEG, "
                               "PNG and WebP files (a folder "
                               "for each class), a table of pictures and classes (.csv or .tsv) or a packed "
                               "file there, or use --data "
                               "shapes, which needs no files";
    CHECK(refusal(empty, Split::train) ==
          empty +
              " holds no data_batch_1.bin, train.bin, train-images-idx3-ubyte, *train*.tfrecord, "
              "train/CLASS/*.jpg, table of pictures or packed file" +
              remedy);
    CHECK(refusal(empty, Split::test) ==
          empty +
              " holds no test_batch.bin, test.bin, t10k-images-idx3-ubyte, *test*.tfrecord, val/CLASS/*.jpg, "
              "row for testing or packed file" +
              remedy);
    test::write_text(folder / "cat.png", "\x89PNG");
    CHECK(refusal(folder / "cat.png", Split::train) ==
          (folder / "cat.png").string() + " is one picture; " + what_to_give());
}

TEST_CASE("--format decides, and what more than one format recognizes is said") {
    const test::TemporaryFolder folder;
    const std::string path = folder.path().string();
    write_cifar10(make_shapes(Split::train, 3, {32, 32, 3}, 50), Split::train, path);
    DataRequest request{path, Split::train};
    request.format = "cifar10";
    CHECK(open_data(request)->size() == 50);
    request.format = "mnist";
    CHECK(test::input_error([&] { open_data(request); }) ==
          path + " has nothing that --format mnist takes, train-images-idx3-ubyte");
    request.format = "zip";
    CHECK(test::input_error([&] { open_data(request); }) ==
          "--format zip: there is no such format; choose one of " + format_keys());
    CHECK(format_keys() == "cifar10, cifar100, mnist, tfrecord, pictures, table, packed, shapes");
    request.format.clear();
    CHECK(has_examples(request));
    request.split = Split::test;
    CHECK_FALSE(has_examples(request));
}

TEST_CASE("a source is the same from any folder") {
    const test::TemporaryFolder folder;
    const std::filesystem::path odd = folder / "a[1]*";
    std::filesystem::create_directory(odd);
    const std::filesystem::path before = std::filesystem::current_path();
    std::filesystem::current_path(odd);
    CHECK(absolute_source("shapes") == "shapes");
    CHECK(absolute_source("shapes?x=y") == "shapes?x=y");
    CHECK(absolute_source("digits?size=9") == (odd / "digits?size=9").string());
    CHECK(absolute_source("./T.csv?root=../../x") == (odd / "T.csv").string() + "?root=../../x");
    CHECK(absolute_source("digits/*.tfrecord?label=x") ==
          (folder / "a\\[1]\\*").string() + "/digits/*.tfrecord?label=x");
    std::filesystem::current_path(before);
    CHECK(test::input_error([&] {
              open_data({"nowhere/*.tfrecord", Split::train});
          }) == "no file of records matches the pattern nowhere/*.tfrecord; check it");
    test::write_text(folder / "train-images-idx3-ubyte.gz", "\x1f\x8b");
    CHECK(test::input_error([&] {
              open_data({(folder / "train-images-idx3-ubyte.gz").string(), Split::train});
          }).find("is one of the files of a data set like MNIST; give the folder") != std::string::npos);
}

} // namespace towers
