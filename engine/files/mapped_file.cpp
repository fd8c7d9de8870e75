#include "engine/files/mapped_file.h"

#include "engine/files/file.h"

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

MappedFile::~MappedFile() {
    if (!bytes_.empty()) ::munmap(const_cast<std::uint8_t*>(bytes_.data()), bytes_.size());
}

} // namespace towers
