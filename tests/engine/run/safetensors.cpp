#include "engine/run/safetensors.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>

#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace towers {

namespace {

using test::input_error;
using test::read_text;
using test::write_text;

std::string file_of(const std::string& header, std::size_t data_bytes) {
    const std::uint64_t length = header.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    return bytes + header + std::string(data_bytes, '\x01');
}

std::string entry(const std::string& name, const std::string& shape, const std::string& offsets) {
    return fmt::format(R"("{}":{{"dtype":"F32","shape":{},"data_offsets":{}}})", name, shape, offsets);
}

std::string header_of(std::initializer_list<std::string> entries) {
    return fmt::format("{{{}}}", fmt::join(entries, ","));
}

TensorFile sample() {
    TensorFile file;
    file.tensors["conv1/weights"] = {{2, 1, 3}, {0.0f, -0.0f, 1.5f, -2e-38f, 3e38f, 1e-45f}};
    file.tensors["conv1/biases"] = {{3}, {1.0f, 2.0f, 3.0f}};
    file.tensors["step"] = {{}, {42.0f}};
    file.tensors["empty"] = {{4, 0}, {}};
    file.tensors["name with \"quotes\" and \u00e9"] = {{1}, {std::numeric_limits<float>::infinity()}};
    file.metadata = {{"step", "1000"}, {"seed", "7"}, {"words", "line\nbreak and \u00e9"}};
    return file;
}

} // namespace

TEST_CASE("words and bytes are read back as well as numbers") {
    const test::TemporaryFolder folder;
    TensorFile file = sample();
    file.words["records"] = {{3}, {0, 7, 0xffffffff}};
    file.bytes["images"] = {{1, 5}, {0, 1, 127, 128, 255}};
    write_safetensors(folder / "file", file);
    const TensorFile back = read_safetensors(folder / "file");
    CHECK(back.tensors.size() == file.tensors.size());
    CHECK(back.tensors.at("conv1/biases").values == file.tensors.at("conv1/biases").values);
    REQUIRE(back.words.size() == 1);
    CHECK(back.words.at("records").shape == std::vector<std::size_t>{3});
    CHECK(back.words.at("records").values == file.words.at("records").values);
    REQUIRE(back.bytes.size() == 1);
    CHECK(back.bytes.at("images").shape == std::vector<std::size_t>{1, 5});
    CHECK(back.bytes.at("images").values == file.bytes.at("images").values);
    // The header holds each name once.
    file.bytes["records"] = {{1}, {0}};
    CHECK_THROWS_AS(write_safetensors(folder / "twice", file), std::invalid_argument);
    CHECK(!std::filesystem::exists(folder / "twice"));
}

TEST_CASE("unused tensors may have any type") {
    const test::TemporaryFolder folder;
    const std::filesystem::path path = folder / "file";
    test::write_text(path, file_of(R"({"other":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]},)"
                                   R"("w":{"dtype":"F32","shape":[1],"data_offsets":[6,10]},)"
                                   R"("new":{"dtype":"F8_E9M9","shape":[2,2],"data_offsets":[10,11]}})",
                                   11));
    const TensorFile file = read_safetensors(path, [](const std::string& name) { return name == "w"; });
    CHECK(file.tensors.size() == 1);
    CHECK(file.tensors.at("w").values.size() == 1);
    CHECK(test::input_error([&] { read_safetensors(path); }).find("dtype") != std::string::npos);
}

TEST_CASE("a checkpoint comes back bit for bit") {
    const test::TemporaryFolder folder;
    TensorFile written = sample();
    written.tensors["nan"] = {{1}, {std::bit_cast<float>(0x7fc01234u)}};
    write_safetensors(folder / "a.safetensors", written);
    const TensorFile read = read_safetensors(folder / "a.safetensors");
    CHECK(read.metadata == written.metadata);
    REQUIRE(read.tensors.size() == written.tensors.size());
    for (const auto& [key, tensor] : written.tensors) {
        const std::string& name = key; // clang 14 cannot CAPTURE a structured binding
        CAPTURE(name);
        const Tensor& other = read.tensors.at(name);
        CHECK(other.shape == tensor.shape);
        REQUIRE(other.values.size() == tensor.values.size());
        CHECK((tensor.values.empty() ||
               std::memcmp(other.values.data(), tensor.values.data(), tensor.values.size() * 4) == 0));
    }
    CHECK(test::names_in(folder.path()) == std::vector<std::string>{"a.safetensors"});
}

TEST_CASE("a file without tensors or metadata is valid") {
    const test::TemporaryFolder folder;
    write_safetensors(folder / "none", {});
    CHECK(read_safetensors(folder / "none").tensors.empty());
    CHECK(read_safetensors(folder / "none").metadata.empty());
}

TEST_CASE("other programs can read the files: the layout is the format's") {
    const test::TemporaryFolder folder;
    TensorFile file;
    file.tensors["b"] = {{2}, {1.0f, 2.0f}};
    file.tensors["a"] = {{1, 1}, {3.0f}};
    file.metadata["step"] = "5";
    write_safetensors(folder / "f", file);
    const std::string bytes = read_text(folder / "f");
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    CHECK(length % 8 == 0);
    REQUIRE(bytes.size() == 8 + length + 12);
    const auto header = nlohmann::json::parse(bytes.substr(8, length));
    CHECK(bytes[8] == '{');
    CHECK(header ==
          nlohmann::json::parse(R"({"__metadata__":{"step":"5","tensors_checksum":"2919959842578916179"},
        "a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},
        "b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})"));
    CHECK(bytes.substr(8 + length, 4) == std::string("\x00\x00\x40\x40", 4));
}

TEST_CASE("a file made elsewhere may have its tensors in any order") {
    const test::TemporaryFolder folder;
    write_text(folder / "f",
               file_of(header_of({entry("a", "[1]", "[8,12]"), entry("z", "[2]", "[0,8]"),
                                  entry("none", "[0]", "[8,8]"), R"("__metadata__":{"format":"pt"})"}) +
                           "   ",
                       12));

    const TensorFile file = read_safetensors(folder / "f");
    CHECK(file.tensors.at("z").values.size() == 2);
    CHECK(file.tensors.at("a").shape == std::vector<std::size_t>{1});
    CHECK(file.tensors.at("none").values.empty());
    CHECK(file.metadata.at("format") == "pt");
}

TEST_CASE("a damaged or hostile checkpoint is refused with one clear line") {
    struct Case {
        const char* what;
        std::string bytes;
        const char* says;
    };
    const std::string good = header_of({entry("w", "[2,3]", "[0,24]")});
    std::string lying = file_of(good, 24);
    lying[7] = '\x7f';
    const std::string cut = file_of(good, 24);
    const auto one = [](const std::string& shape, const std::string& offsets, std::size_t bytes) {
        return file_of(header_of({entry("w", shape, offsets)}), bytes);
    };
    const Case cases[] = {
        {"empty", "", "only 0 bytes"},
        {"shorter than the length", "1234567", "only 7 bytes"},
        {"header longer than memory", lying, "header should have"},
        {"header cut", cut.substr(0, 30), "header should have"},
        {"data cut", cut.substr(0, cut.size() - 1), "cut short"},
        {"bytes behind the data", cut + "x", "no tensor owns its last 1 bytes"},
        {"not JSON", file_of("{\"w\": nonsense}", 0), "not valid JSON at byte"},
        {"a length alone", file_of("", 0), "only 8 bytes"},
        {"no header at all", file_of("", 4), "is not a safetensors file; give one"},
        {"a text", "recipe = 'cifar10-tutorial'", "is not a safetensors file; give one"},
        {"two JSON values", file_of(good + good, 24), "not valid JSON"},
        {"not UTF-8", file_of("{\"\xff\xfe\": 1}", 0), "not valid JSON"},
        {"number too large", file_of("{\"w\": 1e999}", 0), "not valid JSON"},
        {"a list", file_of("[1,2]", 0), "is not a safetensors file; give one"},
        {"endless nesting", file_of("{\"w\":" + std::string(3'000'000, '['), 0), "nested too deeply"},
        {"a name twice", file_of(header_of({entry("w", "[1]", "[0,4]"), entry("w", "[1]", "[0,4]")}), 4),
         "\"w\" appears twice"},
        {"a field twice", file_of(R"({"w":{"dtype":"F32","dtype":"F32"}})", 0), "\"dtype\" appears twice"},
        {"metadata twice", file_of(R"({"__metadata__":{},"__metadata__":{}})", 0), "__metadata__"},
        {"metadata not strings", file_of(R"({"__metadata__":{"step":5}})", 0), "no string under \"step\""},
        {"metadata not an object", file_of(R"({"__metadata__":"x"})", 0), "__metadata__ is not"},
        {"a tensor that is not one", file_of(R"({"w":5})", 0), "\"w\" has no dtype"},
        {"no shape", file_of(R"({"w":{"dtype":"F32","data_offsets":[0,0]}})", 0), "\"w\" has no shape"},
        {"no offsets", file_of(R"({"w":{"dtype":"F32","shape":[0]}})", 0), "\"w\" has no data_offsets"},
        {"other numbers", file_of(R"({"w":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}})", 2),
         "\"w\" of"}, // the dtype follows; see below
        {"dtype not a string", file_of(R"({"w":{"dtype":[1],"shape":[1],"data_offsets":[0,4]}})", 4),
         "dtype [1]"},
        {"negative extent", one("[-1]", "[0,4]", 4), "not a list of sizes"},
        {"fraction of an extent", one("[1.0]", "[0,4]", 4), "not a list of sizes"},
        {"extent beyond 64 bits", one("[99999999999999999999]", "[0,4]", 4), "not a list of sizes"},
        {"shape a number", one("4", "[0,4]", 4), "not a list of sizes"},
        {"product overflows", one("[4294967296,4294967296]", "[0,0]", 0), "too large for any memory"},
        {"bytes overflow", one("[4611686018427387904]", "[0,0]", 0), "too large for any memory"},
        {"too few bytes", one("[2,3]", "[0,20]", 20), "takes 24 bytes, but its data_offsets hold 20"},
        {"offsets reversed", one("[1]", "[4,0]", 4), "not a begin and an end"},
        {"three offsets", one("[1]", "[0,4,8]", 4), "not a begin and an end"},
        {"negative offset", one("[1]", "[-4,0]", 4), "not a begin and an end"},
        {"offsets out of range", one("[250]", "[0,1000]", 4), "cut short"},
        {"huge offsets", one("[1]", "[18446744073709551611,18446744073709551615]", 4), "no tensor owns"},
        {"overlap", file_of(header_of({entry("a", "[2]", "[0,8]"), entry("b", "[2]", "[4,12]")}), 12),
         "\"b\" overlaps"},
        {"the same bytes twice",
         file_of(header_of({entry("a", "[2]", "[0,8]"), entry("b", "[2]", "[0,8]")}), 8), "overlaps"},
        {"a hole", file_of(header_of({entry("a", "[1]", "[0,4]"), entry("b", "[1]", "[8,12]")}), 12),
         "no tensor owns the 4 bytes before tensor \"b\""},
        {"a name with a line break", file_of(R"({"a\nb":{"dtype":"F32"}})", 0), "\"a\\nb\" has no shape"},
    };
    const test::TemporaryFolder folder;
    const std::filesystem::path path = folder / "bad.safetensors";
    for (const Case& c : cases) {
        write_text(path, c.bytes);
        const std::string message = input_error([&] { read_safetensors(path); });
        CAPTURE(c.what);
        CAPTURE(message);
        CHECK(message.find(c.says) != std::string::npos);
        CHECK(message.find(path.string()) != std::string::npos);
        CHECK(message.size() < path.string().size() + 400);
        if (c.what == std::string("other numbers")) CHECK(message.find("\"BF16\"") != std::string::npos);
    }
}

TEST_CASE("every truncation of a checkpoint is noticed") {
    const test::TemporaryFolder folder;
    write_safetensors(folder / "f", sample());
    const std::string whole = read_text(folder / "f");
    for (std::size_t length = 0; length < whole.size(); ++length) {
        write_text(folder / "cut", whole.substr(0, length));
        REQUIRE(input_error([&] { read_safetensors(folder / "cut"); }).find("cut") != std::string::npos);
    }
}

TEST_CASE("a flipped bit of any tensor is noticed, even of one that is not read") {
    const test::TemporaryFolder folder;
    TensorFile file = sample();
    file.words["records"] = {{3}, {0, 7, 0xffffffff}};
    file.bytes["images"] = {{1, 5}, {0, 1, 127, 128, 255}};
    write_safetensors(folder / "f", file);
    const std::string whole = read_text(folder / "f");
    std::uint64_t length = 0;
    std::memcpy(&length, whole.data(), 8);
    const auto nothing = [](const std::string&) { return false; };
    CHECK(read_safetensors(folder / "f", nothing).metadata == file.metadata);
    for (std::size_t bit = 8 * (8 + length); bit < 8 * whole.size(); ++bit) {
        std::string flipped = whole;
        flipped[bit / 8] ^= char(1 << bit % 8);
        write_text(folder / "flipped", flipped);
        for (const TensorFilter& wanted : {TensorFilter(), TensorFilter(nothing)})
            REQUIRE(input_error([&] {
                        read_safetensors(folder / "flipped", wanted);
                    }).find("its tensors are not those that it was written with") != std::string::npos);
    }
}

TEST_CASE("files of very deep networks are read as they are written") {
    const test::TemporaryFolder folder;
    TensorFile file;
    for (unsigned i = 0; i < 40'000; ++i)
        file.tensors[fmt::format("block{}/branch/convolution/weights/ExponentialMovingAverage", i)] = {
            {1, 1}, {float(i)}};
    write_safetensors(folder / "deep", file);
    CHECK(std::filesystem::file_size(folder / "deep") > 4 << 20);
    const TensorFile back = read_safetensors(folder / "deep");
    CHECK(back.tensors.size() == file.tensors.size());
    CHECK(back.tensors.rbegin()->second.values == file.tensors.rbegin()->second.values);

    // Files that could not be read are not written.
    file.tensors = {{std::string(100'000'000, 'x'), {{1}, {0.0f}}}};
    CHECK(input_error([&] {
              write_safetensors(folder / "none", file);
          }).find("but at most 100000000 can be read") != std::string::npos);
    CHECK(test::names_in(folder.path()) == std::vector<std::string>{"deep"});
    const std::uint64_t length = 100'000'001;
    write_text(folder / "long", std::string(reinterpret_cast<const char*>(&length), 8) + '{');
    std::filesystem::resize_file(folder / "long", length + 100);
    CHECK(input_error([&] { read_safetensors(folder / "long"); }).find("but at most 100000000 are read") !=
          std::string::npos);
}

TEST_CASE("a checkpoint that cannot be opened is named") {
    const test::TemporaryFolder folder;
    const std::string missing = input_error([&] { read_safetensors(folder / "none.safetensors"); });
    CHECK(missing.find("none.safetensors: No such file") != std::string::npos);
    CHECK(input_error([&] { read_safetensors(folder.path()); }).find("folder") != std::string::npos);
    CHECK(input_error([&] { read_safetensors("/dev/null"); }).find("not a regular file") !=
          std::string::npos);
}

TEST_CASE("a full disk leaves the earlier checkpoint as it was") {
    const test::TemporaryFolder folder;
    const std::filesystem::path path = folder / "model.safetensors";
    write_safetensors(path, sample());
    const std::string before = read_text(path);
    TensorFile large;
    large.tensors["w"] = {{100'000}, std::vector<float>(100'000, 1.0f)};
    std::string message;
    {
        const test::FullDisk disk(200'000);
        message = input_error([&] { write_safetensors(path, large); });
    }
    CHECK(message.find("cannot write " + path.string()) != std::string::npos);
    CHECK(message.find("File too large; raise") != std::string::npos);
    CHECK(read_text(path) == before);
    CHECK(test::names_in(folder.path()) == std::vector<std::string>{"model.safetensors"});
    write_safetensors(path, large); // works when there is room again
    CHECK(read_safetensors(path).tensors.at("w").values == large.tensors.at("w").values);
}

TEST_CASE("a checkpoint that cannot be written anywhere is an error with a path") {
    const test::TemporaryFolder folder;
    const std::string message = input_error([&] { write_safetensors(folder / "none/f", sample()); });
    CHECK(message.find("cannot write " + (folder / "none/f").string()) != std::string::npos);
    std::filesystem::create_directory(folder / "taken");
    CHECK(input_error([&] { write_safetensors(folder / "taken", sample()); }).find("cannot write") !=
          std::string::npos);
    CHECK(test::names_in(folder.path()) == std::vector<std::string>{"taken"});
}

TEST_CASE("tensors that contradict themselves are not stored") {
    const test::TemporaryFolder folder;
    TensorFile file;
    file.tensors["w"] = {{2, 3}, {1.0f}};
    CHECK_THROWS_AS(write_safetensors(folder / "f", file), std::invalid_argument);
    file.tensors = {{"__metadata__", {{1}, {1.0f}}}};
    CHECK_THROWS_AS(write_safetensors(folder / "f", file), std::invalid_argument);
    CHECK(test::names_in(folder.path()).empty());
}

} // namespace towers
