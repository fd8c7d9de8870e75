// How the words of a SPIR-V module are read. It begins with five words of header and the capabilities that it
// uses.
#pragma once

#include <cstdint>

namespace towers::vulkan {

constexpr std::uint32_t spirv_header = 5, op_capability = 17;
constexpr std::uint32_t opcode(std::uint32_t first_word) { return first_word & 0xffff; }
constexpr std::uint32_t words(std::uint32_t first_word) { return first_word >> 16; }

} // namespace towers::vulkan
