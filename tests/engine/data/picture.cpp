// Pictures that Pillow wrote and read (tests/fixtures/make_pictures.py), and damaged ones.
#include "engine/data/picture.h"
#include "backends/files/file.h"
#include "engine/data/byte_budget.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace towers {
namespace {

namespace fs = std::filesystem;

fs::path fixtures() { return test::source_folder() / "tests/fixtures/pictures"; }

std::vector<std::uint8_t> bytes_of(const fs::path& path) {
    const std::string text = test::read_text(path);
    return {text.begin(), text.end()};
}

/// A PPM or PGM file as planes.
Picture read_pnm(const fs::path& path) {
    std::istringstream file(test::read_text(path));
    std::string kind;
    unsigned width = 0, height = 0, most = 0;
    file >> kind >> width >> height >> most;
    file.get();
    const unsigned channels = kind == "P6" ? 3 : 1;
    Picture picture{{height, width, channels},
                    std::vector<std::uint8_t>(std::size_t(height) * width * channels)};
    const std::size_t plane = picture.planes.size() / channels;
    for (std::size_t i = 0; i < plane; ++i)
        for (unsigned c = 0; c < channels; ++c) picture.planes[c * plane + i] = std::uint8_t(file.get());
    REQUIRE(file);
    return picture;
}

int largest_difference(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) {
    REQUIRE(a.size() == b.size());
    int most = 0;
    for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(int(a[i]) - int(b[i])));
    return most;
}

std::string error_of(std::span<const std::uint8_t> bytes) {
    try {
        decode_picture(bytes, 3);
    } catch (const PictureError& error) {
        return error.what();
    }
    return "none";
}

std::string big_endian(std::uint32_t number) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) bytes += char(number >> shift);
    return bytes;
}

/// A PNG's chunk.
std::string chunk(const std::string& type, const std::string& data) {
    const std::string checked = type + data;
    const auto sum = crc32(0, reinterpret_cast<const Bytef*>(checked.data()), uInt(checked.size()));
    return big_endian(std::uint32_t(data.size())) + checked + big_endian(std::uint32_t(sum));
}

/// zlib's compression of a text.
std::string packed(const std::string& text) {
    std::vector<Bytef> bytes(compressBound(text.size()));
    uLongf size = bytes.size();
    REQUIRE(compress(bytes.data(), &size, reinterpret_cast<const Bytef*>(text.data()), text.size()) == Z_OK);
    return {bytes.begin(), bytes.begin() + std::ptrdiff_t(size)};
}

/// The first bytes of a PNG in grey of this size.
std::vector<std::uint8_t> png_header(std::uint32_t height, std::uint32_t width) {
    std::vector<std::uint8_t> bytes = bytes_of(fixtures() / "grey.png");
    for (unsigned i = 0; i < 4; ++i) {
        bytes[16 + i] = std::uint8_t(width >> (24 - 8 * i));
        bytes[20 + i] = std::uint8_t(height >> (24 - 8 * i));
    }
    return bytes;
}

} // namespace

TEST_CASE("pictures of every kind are decoded as Pillow decodes them: PNG and WebP exactly, JPEG within 2") {
    unsigned compared = 0;
    for (const std::string& name : test::names_in(fixtures())) {
        const bool jpeg = name.ends_with(".jpg");
        if ((!jpeg && !name.ends_with(".png") && !name.ends_with(".webp")) || name == "moving.webp") continue;
        const std::vector<std::uint8_t> bytes = bytes_of(fixtures() / name);
        CAPTURE(name);
        CHECK(begins_as_picture(bytes));
        for (const auto& [end, channels] : {std::pair(".ppm", 3u), {".pgm", 1u}}) {
            const fs::path file = fixtures() / (name + end);
            if (!fs::exists(file)) continue;
            const Picture expected = read_pnm(file), decoded = decode_picture(bytes, channels);
            CHECK(decoded.size == expected.size);
            CHECK(largest_difference(decoded.planes, expected.planes) <= (jpeg ? 2 : 0));
            ++compared;
        }
    }
    CHECK(compared == 55);
    CHECK(picture_size(bytes_of(fixtures() / "grey.jpg")) == ImageSize{13, 19, 1});
    CHECK(picture_size(bytes_of(fixtures() / "grey-alpha.png")) == ImageSize{13, 19, 1});
    CHECK(picture_size(bytes_of(fixtures() / "palette.png")) == ImageSize{13, 19, 3});
    CHECK(picture_size(bytes_of(fixtures() / "orientation-5.jpg")) == ImageSize{19, 13, 3});
}

TEST_CASE("the size of a picture is that of its upright pixels, in memory and in a file") {
    for (const std::string& name : test::names_in(fixtures())) {
        if (!name.ends_with(".jpg") && !name.ends_with(".png") &&
            (!name.ends_with(".webp") || name == "moving.webp"))
            continue;
        CAPTURE(name);
        const std::vector<std::uint8_t> bytes = bytes_of(fixtures() / name);
        const ImageSize size = picture_size(bytes);
        CHECK(size == decode_picture(bytes, size.channels).size);
        CHECK(size == picture_size(PictureBytes(InputFile(fixtures() / name))));
    }
}

TEST_CASE("PNG: chunks beside the pixels do no harm, however many and large they are") {
    const std::vector<std::uint8_t> whole = bytes_of(fixtures() / "turned.png");
    const auto check_with = [&](const std::string& more, const std::string& name = "turned.png") {
        const Picture expected = read_pnm(fixtures() / (name + ".ppm"));
        std::vector<std::uint8_t> png = bytes_of(fixtures() / name);
        png.insert(png.begin() + 33, more.begin(), more.end()); // after the header
        CHECK(picture_size(png) == expected.size);
        CHECK(decode_picture(png, 3).planes == expected.planes);
    };
    std::string many;
    for (int i = 0; i < 1200; ++i) many += chunk("tEXt", std::string("Comment\0and so on", 17));
    check_with(many);
    check_with(chunk("tEXt", "Comment" + std::string(70'000'000, '\0')));
    check_with(chunk("eXIf", ""));
    const std::string zeros = packed(std::string(50'000'000, '0'));
    const std::string bomb("Raw profile type exif\0\0", 23);
    check_with(chunk("zTXt", bomb + zeros) + chunk("zTXt", bomb + zeros));
    check_with(chunk("zTXt", bomb + packed("\nexif\n2\n0000")), "turned-xmp.png"); // neither Exif nor XMP
    check_with(chunk("zTXt", bomb + "this is not packed") + chunk("iTXt", "XML:com.adobe.xmp"));
    check_with(chunk("zTXt", "Raw profile type exif") + chunk("tEXt", "Raw profile type APP1") +
               chunk("tEXt", ""));

    // What is damaged is named: a chunk of pixels, one that says the orientation, one that is too long.
    const auto error_with = [&](std::string_view type, std::size_t byte) {
        std::vector<std::uint8_t> png = whole;
        const auto at = std::search(png.begin(), png.end(), type.begin(), type.end()) - png.begin();
        png[std::size_t(at) + byte] ^= 1;
        return error_of(png);
    };
    CHECK(error_with("eXIf", 8) == "is damaged: its chunk eXIf has another checksum");
    CHECK(error_with("IDAT", 30) == "is damaged: libspng says 'IDAT stream error'");
    CHECK(error_with("IHDR", 12) == "is damaged: libspng says 'invalid bit depth'");
}

TEST_CASE("a JPEG whose colours are sampled as libjpeg cannot decode them is refused by its header") {
    std::vector<std::uint8_t> jpeg = bytes_of(fixtures() / "sampled-3x1.jpg");
    const std::vector<std::uint8_t> frame{0xff, 0xc0};
    const auto at = std::search(jpeg.begin(), jpeg.end(), frame.begin(), frame.end()) - jpeg.begin();
    REQUIRE(jpeg[std::size_t(at) + 11] == 0x31);
    jpeg[std::size_t(at) + 14] = 0x21; // 3 samples of brightness to 2 of a colour
    const char* const problem =
        "has colours sampled at a fraction, which libjpeg does not decode; convert it";
    CHECK(error_of(jpeg) == problem);
    CHECK_THROWS_WITH_AS(picture_size(jpeg), problem, PictureError);
}

TEST_CASE("a picture is prepared from its middle, resized as Pillow does") {
    const std::vector<std::uint8_t> bytes = bytes_of(fixtures() / "large.png");
    for (const char* name : {"prepared-24x24.ppm", "prepared-20x10.ppm", "prepared-56x56.ppm"}) {
        CAPTURE(name);
        const Picture expected = read_pnm(fixtures() / name);
        std::vector<std::uint8_t> image(expected.planes.size());
        prepare_picture(bytes, expected.size, image);
        CHECK(image == expected.planes);
    }
}

TEST_CASE("a JPEG is decoded at a smaller scale, never below the size") {
    // A smooth picture: whatever the scale, its middle is about the same.
    for (const char* name : {"rgb.jpg", "orientation-6.jpg", "grey.jpg", "cmyk.jpg"}) {
        CAPTURE(name);
        const std::vector<std::uint8_t> bytes = bytes_of(fixtures() / name);
        const Picture full = decode_picture(bytes, 3);
        const std::size_t plane = std::size_t(full.size.height) * full.size.width;
        std::vector<std::uint8_t> whole(3 * 13 * 13), small(3 * 7 * 7);
        prepare_picture(bytes, {13, 13, 3}, whole);
        prepare_picture(bytes, {7, 7, 3}, small);
        for (unsigned c = 0; c < 3; ++c) {
            const std::uint8_t middle =
                full.planes[c * plane + full.size.height / 2 * full.size.width + full.size.width / 2];
            CHECK(std::abs(int(whole[c * 169 + 6 * 13 + 6]) - int(middle)) <= 12);
            CHECK(std::abs(int(small[c * 49 + 3 * 7 + 3]) - int(middle)) <= 16);
        }
    }
}

TEST_CASE("what is no picture, damaged, cut short or too large is refused before memory is taken") {
    const auto text = [](std::string_view s) { return std::vector<std::uint8_t>(s.begin(), s.end()); };
    CHECK(error_of({}) == "is empty");
    CHECK(error_of(text("this is no picture")) == "is neither JPEG, PNG nor WebP");
    CHECK(error_of(text("GIF89a.............")) == "is GIF, neither JPEG, PNG nor WebP");
    CHECK(error_of(text("BM..........")) == "is BMP, neither JPEG, PNG nor WebP");
    CHECK(error_of(text({"MM\0*\0\0\0\x08\0\0\0\0", 12})) == "is TIFF, neither JPEG, PNG nor WebP");
    CHECK(error_of(bytes_of(fixtures() / "moving.webp")) == "is an animation; convert it to a picture");
    CHECK(error_of(text("\xff\xd8\xff")) == "is cut short");
    const char* const huge = "has 30000x30000 pixels, more than 178 million";
    CHECK(error_of(png_header(30'000, 30'000)) == huge);
    CHECK(error_of(png_header(0, 9)).find("is damaged: libspng says") == 0);
    std::vector<std::uint8_t> jpeg = bytes_of(fixtures() / "rgb.jpg");
    for (std::size_t i = 2; i + 9 < jpeg.size(); ++i)
        if (jpeg[i] == 0xff && jpeg[i + 1] == 0xc0) {
            jpeg[i + 5] = jpeg[i + 7] = 30'000 >> 8;
            jpeg[i + 6] = jpeg[i + 8] = 30'000 & 255;
            break;
        }
    CHECK(error_of(jpeg) == huge);
    CHECK_THROWS_AS(picture_size(jpeg), PictureError);

    // Bytes too many between segments harm nothing, but must not hide the damage that libjpeg finds later.
    std::vector<std::uint8_t> padded = bytes_of(fixtures() / "rgb.jpg");
    padded.insert(padded.begin() + 4 + (padded[4] << 8 | padded[5]), 5, std::uint8_t(0));
    CHECK(error_of(padded) == "none");
    CHECK(error_of(std::span(padded).first(padded.size() - 40)) == "is cut short");

    for (const char* name : {"rgb.jpg", "progressive.jpg", "cmyk.jpg", "rgba.png", "interlaced.png",
                             "lossy.webp", "transparent.webp", "orientation-6.webp"}) {
        CAPTURE(name);
        const std::vector<std::uint8_t> whole = bytes_of(fixtures() / name);
        for (std::size_t length = 0; length + 2 < whole.size(); ++length) {
            CAPTURE(length);
            const bool png = std::string_view(name).ends_with(".png");
            if (png && length + 16 >= whole.size()) continue; // its pixels are complete
            CHECK(error_of(std::span(whole).first(length)) != "none");
        }
        for (std::size_t i = 0; i < whole.size(); ++i) { // any byte may be wrong, and nothing worse happens
            std::vector<std::uint8_t> damaged = whole;
            damaged[i] ^= std::uint8_t(1 << i % 8);
            error_of(damaged);
        }
    }
}

TEST_CASE("threads take a budget's bytes at once, and what is larger is alone") {
    ByteBudget budget(10);
    std::atomic<unsigned> taken = 0, most = 0;
    // `awaited`: bytes that threads must have taken at once before this one gives its own back
    const auto work = [&](unsigned bytes, unsigned awaited) {
        const ByteBudget::Share share = budget.take(bytes);
        const unsigned now = taken += bytes;
        for (unsigned before = most; before < now && !most.compare_exchange_weak(before, now);) {
        }
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (most < awaited && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
        for (int i = 0; i < 200; ++i) std::this_thread::yield();
        taken -= bytes;
    };
    {
        std::vector<std::future<void>> threads;
        for (int i = 0; i < 24; ++i) threads.push_back(std::async(std::launch::async, work, 5u, 10u));
    }
    CHECK(most == 10);
    {
        std::vector<std::future<void>> threads;
        for (int i = 0; i < 24; ++i)
            threads.push_back(std::async(std::launch::async, work, i % 8 == 7 ? 25u : 4u, 0u));
    }
    CHECK(most == 25);
}

} // namespace towers
