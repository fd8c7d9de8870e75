// A report of `towers bench` as a single HTML page that needs no other file and no network.
#pragma once

#include <string>

namespace towers {

/// `json` is the report as to_json() writes it; the page's script draws it.
std::string bench_page(const std::string& json);

} // namespace towers
