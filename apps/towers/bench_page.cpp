#include "apps/towers/bench_page.h"

#include <stdexcept>
#include <string_view>

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

/// JSON that is safe inside an HTML script element, whatever a device's name contains. These characters occur
/// only in strings, and strings may contain them as escapes.
std::string escaped(const std::string& json) {
    std::string text;
    for (const char c : json) {
        if (c == '<')
            text += "\\u003c";
        else if (c == '>')
            text += "\\u003e";
        else if (c == '&')
            text += "\\u0026";
        else
            text += c;
    }
    return text;
}

void replace(std::string& text, std::string_view marker, std::string_view by) {
    const std::size_t place = text.find(marker);
    if (place == std::string::npos) throw std::logic_error("the page has lost a marker");
    text.replace(place, marker.size(), by);
}

} // namespace

std::string bench_page(const std::string& json) {
    std::string text(page);
    replace(text, "{{STYLE}}", style);
    replace(text, "{{SCRIPT}}", script);
    replace(text, "{{REPORT}}", escaped(json)); // last, so that no text in it is taken for a marker
    return text;
}

} // namespace towers
