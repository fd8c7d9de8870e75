#include "engine/files/gzip_file.h"

#include "backends/error.h"
#include "backends/files/file.h"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <new>
#include <string_view>
#include <unistd.h>
#include <zlib.h>

namespace towers {

void GzipFile::Closer::operator()(gzFile_s* file) const { gzclose(file); }

GzipFile::GzipFile(const std::filesystem::path& path) : path_(path) {
    FileDescriptor file = InputFile(path).release();
    file_.reset(gzdopen(file.get(), "rb"));
    if (!file_) throw_file_error("read", path, ENOMEM);
    file.release(); // gzclose() closes it
    gzbuffer(file_.get(), 1u << 18);
}

GzipFile::~GzipFile() = default;

std::size_t GzipFile::read(std::span<std::byte> target) {
    constexpr std::size_t most = std::size_t(1) << 30; // gzread() counts in int
    std::size_t done = 0;
    while (done < target.size()) {
        errno = 0;
        const int bytes =
            gzread(file_.get(), target.data() + done, unsigned(std::min(target.size() - done, most)));
        if (bytes == 0) break;
        if (bytes > 0) {
            done += std::size_t(bytes);
            continue;
        }
        int error = Z_OK;
        const char* const words = gzerror(file_.get(), &error);
        if (error == Z_ERRNO) throw_file_error("read", path_, errno);
        if (error == Z_MEM_ERROR) throw std::bad_alloc();
        const std::string_view reason = words; // after the file's number
        throw InputError(fmt::format("{} is damaged: gzip says '{}'; replace it with a complete copy",
                                     path_.string(),
                                     reason.substr(std::min(reason.find(": ") + 2, reason.size()))));
    }
    int error = Z_OK;
    gzerror(file_.get(), &error);
    if (done < target.size() && error == Z_BUF_ERROR) // the end of the file before the end of gzip's data
        throw InputError(fmt::format("{} is cut short; replace it with a complete copy", path_.string()));
    return done;
}

std::vector<std::uint8_t> GzipFile::read_up_to(std::size_t most) {
    constexpr std::size_t piece = std::size_t(8) << 20;
    std::vector<std::uint8_t> bytes;
    while (bytes.size() < most) {
        const std::size_t had = bytes.size(), wanted = std::min(piece, most - had);
        bytes.resize(had + wanted);
        const std::size_t got = read(std::as_writable_bytes(std::span(bytes).subspan(had)));
        bytes.resize(had + got);
        if (got < wanted) break;
    }
    return bytes;
}

} // namespace towers
