#include "apps/towers/bench_page.h"

#include "apps/towers/html_page.h"

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

} // namespace

std::string bench_page(const std::string& json) { return html_page({page, style, script}, json); }

} // namespace towers
