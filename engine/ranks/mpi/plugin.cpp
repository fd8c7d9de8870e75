#include "engine/ranks/mpi/plugin.h"

#include <climits>
#include <cstdlib>
#include <cstring>
#include <mpi.h>
#include <sstream>
#include <string>

#ifdef OPEN_MPI
// Open MPI 5 has them. A plugin that was built with an earlier one finds them when it runs with a later one.
extern "C" {
int MPIX_Comm_revoke(MPI_Comm) __attribute__((weak));
int MPIX_Comm_shrink(MPI_Comm, MPI_Comm*) __attribute__((weak));
}
#endif

namespace {

std::string problem; ///< of the last call that failed
MPI_Comm ranks = MPI_COMM_NULL;

const char* fail(const std::string& text) {
    problem = text;
    return problem.c_str();
}

/// Null if the call of MPI that returned this has worked.
const char* check(int code) {
    if (code == MPI_SUCCESS) return nullptr;
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return fail("error " + std::to_string(code));
    return fail(std::string(text, std::size_t(length)));
}

/// `Open MPI 4.1.4` of "Open MPI v4.1.4, package: ...", `MPICH 4.0.2` of "MPICH Version:\t4.0.2\n...".
std::string library_name() {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "MPI";
    const std::string all(text, std::size_t(length));
    std::istringstream words(all.substr(0, all.find_first_of(",\n")));
    std::string name;
    for (std::string word; words >> word;) {
        if (word == "Version:") continue;
        if (word.size() > 1 && word[0] == 'v' && word[1] >= '0' && word[1] <= '9') word.erase(0, 1);
        name += (name.empty() ? "" : " ") + word;
    }
    return name;
}

#ifdef OPEN_MPI
bool can_shrink() {
    const char* const enabled = std::getenv("OMPI_MCA_mpi_ft_enable"); // by mpirun --with-ft ulfm
    return enabled != nullptr && (std::string(enabled) == "1" || std::string(enabled) == "true") &&
           MPIX_Comm_revoke != nullptr && MPIX_Comm_shrink != nullptr;
}

const char* revoke() { return check(MPIX_Comm_revoke(ranks)); }

const char* shrink(int* rank, int* size) {
    MPI_Comm left = MPI_COMM_NULL;
    if (const char* const error = check(MPIX_Comm_shrink(ranks, &left))) return error;
    ranks = left; // the old one stays: freeing it would wait for the ranks that are gone
    if (const char* const error = check(MPI_Comm_set_errhandler(ranks, MPI_ERRORS_RETURN))) return error;
    if (const char* const error = check(MPI_Comm_rank(ranks, rank))) return error;
    return check(MPI_Comm_size(ranks, size));
}

/// The launcher learns of a process that a signal kills. Ranks must find out themselves that one hangs.
void watch_each_other() {
    setenv("OMPI_MCA_mpi_ft_detector", "true", 0);
    setenv("OMPI_MCA_mpi_ft_detector_timeout", "20", 0); // s, as CourierOptions::silence
}
#else
bool can_shrink() { return false; }
const char* revoke() { return fail("it cannot go on without a rank"); }
const char* shrink(int*, int*) { return revoke(); }
void watch_each_other() {}
#endif

const char* begin(int* rank, int* size, char* library, std::size_t room) {
    if (can_shrink()) watch_each_other();
    int granted = MPI_THREAD_SINGLE;
    if (const char* const error = check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &granted)))
        return error;
    std::strncpy(library, library_name().c_str(), room - 1);
    library[room - 1] = '\0';
    if (granted < MPI_THREAD_SERIALIZED)
        return fail("it takes calls from one thread only; use an MPI that grants MPI_THREAD_SERIALIZED");
    // A communicator inherits it. The world's counts for errors that belong to no communicator.
    if (const char* const error = check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)))
        return error;
    if (const char* const error = check(MPI_Comm_dup(MPI_COMM_WORLD, &ranks))) return error;
    if (const char* const error = check(MPI_Comm_rank(ranks, rank))) return error;
    return check(MPI_Comm_size(ranks, size));
}

const char* end() {
    if (ranks != MPI_COMM_NULL)
        if (const char* const error = check(MPI_Comm_free(&ranks))) return error;
    return check(MPI_Finalize());
}

/// Begins a transfer with `start`, a function of count and request.
template<typename Start>
const char* transfer_of(std::size_t count, void** transfer, const Start& start) {
    if (count > std::size_t(INT_MAX))
        return fail("a message of " + std::to_string(count) + " bytes is longer than MPI takes, " +
                    std::to_string(INT_MAX));
    auto* const request = new MPI_Request;
    if (const char* const error = check(start(int(count), request))) {
        delete request;
        return error;
    }
    *transfer = request;
    return nullptr;
}

const char* send(const void* bytes, std::size_t count, int to, int tag, void** transfer) {
    return transfer_of(count, transfer, [&](int length, MPI_Request* request) {
        return MPI_Isend(bytes, length, MPI_BYTE, to, tag, ranks, request);
    });
}

const char* receive(void* into, std::size_t count, int from, int tag, void** transfer) {
    return transfer_of(count, transfer, [&](int length, MPI_Request* request) {
        return MPI_Irecv(into, length, MPI_BYTE, from, tag, ranks, request);
    });
}

const char* test(void** transfer, std::size_t* received) {
    auto* const request = static_cast<MPI_Request*>(*transfer);
    int ended = 0;
    MPI_Status status;
    const char* const failure = check(MPI_Test(request, &ended, &status));
    if (failure == nullptr && ended == 0) return nullptr;
    if (failure != nullptr && *request != MPI_REQUEST_NULL) return failure; // it may still move
    delete request;
    *transfer = nullptr;
    if (failure != nullptr || received == nullptr) return failure;
    int count = 0;
    if (const char* const error = check(MPI_Get_count(&status, MPI_BYTE, &count))) return error;
    *received = count == MPI_UNDEFINED ? 0 : std::size_t(count); // a send has no count
    return nullptr;
}

const TowersMpiPlugin calls = {
    TOWERS_MPI_PLUGIN_VERSION, begin, end, send, receive, test, can_shrink, revoke, shrink};

} // namespace

const TowersMpiPlugin* towers_mpi_plugin() { return &calls; }
