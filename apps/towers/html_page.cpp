#include "apps/towers/html_page.h"

#include <stdexcept>

namespace towers {
namespace {

constexpr std::string_view common_style =
#include "page/common.css.inc"
    ;
constexpr std::string_view common_script =
#include "page/common.js.inc"
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

std::string html_page(const PageParts& parts, const std::string& json) {
    std::string text(parts.page);
    replace(text, "{{STYLE}}", std::string(common_style) + std::string(parts.style));
    replace(text, "{{SCRIPT}}", std::string(common_script) + std::string(parts.script));
    replace(text, "{{REPORT}}", escaped(json)); // last, so that no text in it is taken for a marker
    return text;
}

} // namespace towers
