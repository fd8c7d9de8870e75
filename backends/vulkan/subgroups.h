// What follows from the sizes of subgroups that a Vulkan device has.
#pragma once

namespace towers::vulkan {

/// As the driver reports them, in invocations
struct SubgroupSizes {
    unsigned usual = 0;           ///< where no pipeline asks for one
    unsigned least = 0, most = 0; ///< that the device has
    bool on_request = false;      ///< whether a compute pipeline may ask for one
    unsigned most_subgroups = 0;  ///< of a workgroup whose pipeline asks
    /// Packed dot products of mixed signedness (integerDotProduct4x8BitPackedMixedSignednessAccelerated), by
    /// which AMD's RDNA 3 and later are known. They execute 64 invocations at once.
    bool mixed_dot_products = false;
};

/// The size that a source by quads asks for; 0: the driver chooses. RDNA 1 and 2 execute 64 invocations as
/// twice 32, so that 32 finish earlier: after 0.66 to 0.79 of the time, as Mesa's compiler estimates, with
/// the same throughput. Where 32 cannot be had, the nearest size can.
unsigned size_for_quads(const SubgroupSizes& sizes);

/// The most elements of a tile that an invocation of a source by quads can hold in registers. Where subgroups
/// may have fewer than 32 invocations, each invocation has few: Intel's compiler spills with 32 elements, and
/// estimates more cycles an element than with 16. Where they may have more than 64, as on Adreno, each has
/// few too: an Adreno 660 spills with 32.
unsigned elements_for_quads(const SubgroupSizes& sizes);

/// Likewise of a source by fragments, whose invocations have 32 or 64. Intel's compiler spills hundreds of
/// registers with either, so that its units are not used.
unsigned elements_of_fragments(const SubgroupSizes& sizes);

} // namespace towers::vulkan
