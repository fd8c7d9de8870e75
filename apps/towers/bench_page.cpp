#include "apps/towers/bench_page.h"

#include "apps/towers/html_page.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace towers {
namespace {

constexpr std::string_view page =
#include "page/bench.html.inc"
    ;
constexpr std::string_view style =
#include "page/bench.css.inc"
    ;
constexpr std::string_view script =
#include "page/bench.js.inc"
    ;

/// The part of the step that each kernel belongs to.
nlohmann::json parts_of_kernels() {
    nlohmann::json parts;
    const char* part = nullptr;
#define TOWERS_PART_OF_STEP(name) part = #name;
#define TOWERS_KERNEL(name, Params, size, items) parts[#name] = part;
#define TOWERS_TILED_KERNEL(name, Params, size) parts[#name] = part;
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
    return parts;
}

} // namespace

std::string bench_page(const std::string& json) {
    return html_page(
        {page, style, fmt::format("const partOfKernel = {};\n{}", parts_of_kernels().dump(), script)}, json);
}

} // namespace towers
