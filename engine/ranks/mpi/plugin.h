// What a plugin for one MPI offers: the calls of MPI that a Transport needs, with types that are the same for
// all MPIs. Each plugin is a shared library, compiled against one MPI's headers, with `towers_mpi_plugin()`.
#pragma once

#include <cstddef>

extern "C" {

enum { TOWERS_MPI_PLUGIN_VERSION = 3 };

/// All functions return null, or what went wrong as text that stays until the next call. One thread at a time
/// may call them.
struct TowersMpiPlugin {
    unsigned version; ///< TOWERS_MPI_PLUGIN_VERSION
    /// Initializes MPI for calls from several threads, one at a time, and says which rank this process is of
    /// how many. `library`: filled with the MPI's name and version.
    const char* (*begin)(int* rank, int* size, char* library, std::size_t room);
    const char* (*end)(); ///< finalizes; waits for all ranks
    const char* (*send)(const void* bytes, std::size_t count, int to, int tag, void** transfer);
    const char* (*receive)(void* into, std::size_t count, int from, int tag, void** transfer);
    /// If the transfer has ended, also by a failure, frees it and makes it null. `received`: the bytes of a
    /// message received.
    const char* (*test)(void** transfer, std::size_t* received);
    /// Whether the launcher lets ranks go on without one that is gone, as Open MPI's with --with-ft ulfm.
    bool (*can_shrink)();
    /// Lets all transfers fail, on all ranks.
    const char* (*revoke)();
    /// After revoke(): waits for all ranks that are not gone, and continues with them alone.
    const char* (*shrink)(int* rank, int* size);
};

const TowersMpiPlugin* towers_mpi_plugin();
}
