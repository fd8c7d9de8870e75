// Outputs that a run writes repeatedly, which may fail for a while.
#pragma once

#include "backends/device.h"
#include "backends/error.h"

#include <fmt/format.h>
#include <functional>
#include <new>
#include <string>
#include <system_error>
#include <utility>

namespace towers {

using Tell = std::function<void(const std::string&)>;

/// An output that the run writes repeatedly. The training continues if that fails.
class Written {
public:
    explicit Written(const Tell& tell) : tell_(tell) {}

    /// Calls `write`, which returns whether it had anything to write. Returns whether it succeeded; if not,
    /// failure() says why. `place`: where it writes. Tells the user when writing works again.
    bool attempt(const std::string& place, const std::function<bool()>& write) {
        failure_.clear();
        bool wrote = false;
        try {
            wrote = write();
        } catch (const InputError& error) {
            failure_ = error.what();
        } catch (const std::bad_alloc&) {
            failure_ = fmt::format("cannot write {}: there is not enough memory", place);
        } catch (const OutOfMemory&) {
            failure_ = fmt::format("cannot write {}: there is not enough memory", place);
        } catch (const std::system_error& error) {
            failure_ = fmt::format("cannot write {}: {}", place, error.code().message());
        }
        if (wrote && std::exchange(warned_, false)) tell_(fmt::format("saved again: {}", place));
        return failure_.empty();
    }
    /// Tells the user once that writing fails and training continues.
    void warn() {
        if (!std::exchange(warned_, true))
            tell_(fmt::format("{}; training goes on and tries again at the next save", failure_));
    }
    const std::string& failure() const { return failure_; }

private:
    const Tell& tell_;
    std::string failure_;
    bool warned_ = false;
};

} // namespace towers
