// Reports as HTML pages that need no other file and no network.
#pragma once

#include <string>
#include <string_view>

namespace towers {

/// The parts of a page beside those that all pages share.
struct PageParts {
    std::string_view page, style, script;
};

/// The page with its style, its script, and the report that the script draws, as JSON.
std::string html_page(const PageParts& parts, const std::string& json);

} // namespace towers
