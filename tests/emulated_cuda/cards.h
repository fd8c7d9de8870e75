// Which cards the emulated driver shows, in which order.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace emulated {

/// The numbers of the cards that the program sees, as CUDA_VISIBLE_DEVICES has them: a list of numbers, or of
/// UUIDs or how they begin, that ends at the first entry which is neither; nothing if an entry is repeated.
/// The variable TOWERS_EMULATED_CUDA_DEVICES says how many there are.
const std::vector<int>& visible_cards();

/// Whether a driver is installed.
bool has_driver();

std::string name_of_card(int card);
/// As 16 bytes.
std::string uuid_of_card(int card);

} // namespace emulated
