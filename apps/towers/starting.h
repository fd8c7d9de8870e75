// How the program starts.
#pragma once

namespace towers {

/// Opens standard streams that are closed. The next file that the program opens would get such a stream's
/// number, and the program's output would go into that file.
void open_standard_streams();

/// Has OpenMP's threads sleep soon and run on any processor. Its library reads its settings when it is
/// loaded, before main(), so this sets them and starts the program anew. If that fails (without /proc), the
/// threads spin as before, and OpenMP still binds each team's to its places.
void restrain_openmp();

/// Starts the program anew with the same words. Returns only on failure. A signal's handler may call it,
/// after restrain_openmp().
void start_anew(char* const* environment);

} // namespace towers
