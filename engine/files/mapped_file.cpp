#include "engine/files/mapped_file.h"

#include "backends/files/file.h"

#include <cerrno>
#include <sys/mman.h>

namespace towers {

MappedFile::MappedFile(const std::filesystem::path& path) {
    InputFile file(path);
    const std::size_t size = file.size();
    if (size == 0) return; // which mmap() refuses
    const FileDescriptor descriptor = std::move(file).release();
    void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.get(), 0);
    if (memory == MAP_FAILED) throw_file_error("read", path, errno);
    bytes_ = {static_cast<const std::uint8_t*>(memory), size};
}

void MappedFile::forget(std::size_t before) {
    constexpr std::size_t step = std::size_t(64) << 20; // a multiple of every page's size
    const std::size_t end = before / step * step;
    if (end <= forgotten_) return;
    ::madvise(const_cast<std::uint8_t*>(bytes_.data() + forgotten_), end - forgotten_, MADV_DONTNEED);
    forgotten_ = end;
}

MappedFile::~MappedFile() {
    if (!bytes_.empty()) ::munmap(const_cast<std::uint8_t*>(bytes_.data()), bytes_.size());
}

} // namespace towers
