// What the tests of the contract between the engine and the backends share.
#pragma once

#include "tests/conformance/harness.h"

#include <algorithm>
#include <functional>

namespace towers::test {

constexpr std::size_t bytes = 4096;

inline BufferSlice all_of(const Buffer& buffer) { return {&buffer, 0, buffer.bytes()}; }
inline Copy copy(const Buffer& source, const Buffer& target) { return {all_of(source), all_of(target)}; }

inline Buffer staged(Device& device, std::uint32_t word, std::size_t size = bytes) {
    Buffer buffer = device.allocate(size, Memory::staging);
    std::ranges::fill(buffer.host<std::uint32_t>(), word);
    return buffer;
}

inline bool holds(const Buffer& buffer, std::uint32_t word) {
    return std::ranges::all_of(buffer.host<std::uint32_t>(),
                               [=](std::uint32_t each) { return each == word; });
}

inline Recording record(Device& device, const std::vector<Command>& commands) {
    return device.record(commands);
}

/// Work that is long enough to still run when the call returns, unless the device is the host.
inline std::vector<Command> long_work(const Buffer& source, const Buffer& target) {
    std::vector<Command> commands;
    for (int i = 0; i < 20; ++i) {
        commands.push_back(copy(source, target));
        commands.push_back(Barrier{});
    }
    return commands;
}

/// The message of the exception of type E that `action` throws.
template<class E>
std::string message_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const E& error) {
        return error.what();
    } catch (const std::exception& error) {
        return std::string("another exception: ") + error.what();
    }
    return "nothing was thrown";
}

} // namespace towers::test
