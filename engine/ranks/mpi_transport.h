// A transport over the MPI of the launcher, by its plugin, which is opened here and nowhere else.
#pragma once

#include "engine/ranks/launcher.h"
#include "engine/ranks/transport.h"

#include <functional>
#include <memory>
#include <string>

namespace towers {

/// Called, on another thread, with a line for the user, if the ranks do not find each other. The calling
/// thread cannot be stopped, so it should end the program.
using Late = std::function<void(const std::string&)>;

/// Opens the plugin for the launcher's MPI and initializes MPI. Throws UsageError, with one line of what to
/// do, if the plugin or the MPI's library is missing, or if the ranks that MPI knows are not those of the
/// launcher, as under the launcher of another MPI. The destructor finalizes MPI, which waits for all
/// ranks, unless a call has thrown; then the launcher ends the others when this process ends with a code
/// other than 0.
std::unique_ptr<Transport> open_mpi_transport(const Launched& launched, const Late& late);

/// Why open_mpi_transport() would refuse an MPI whose plugin or library is missing here; empty: neither is.
std::string absence_of(MpiKind mpi);

} // namespace towers
