#include "engine/bench/json.h"

#include "engine/error.h"

#include <concepts>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <type_traits>

namespace towers {
namespace {

using Json = nlohmann::ordered_json;

template<class T, class Struct>
concept Is = std::same_as<std::remove_const_t<T>, Struct>;

// The one list of every structure's fields, for writing and reading: calls visit(name, field).

void fields(Is<Spread> auto& s, const auto& visit) {
    visit("median", s.median);
    visit("min", s.min);
    visit("max", s.max);
}
void fields(Is<BenchMachine> auto& m, const auto& visit) {
    visit("processor", m.processor);
    visit("processors", m.processors);
    visit("memory_bytes", m.memory_bytes);
    visit("system", m.system);
    visit("kernel", m.kernel);
    visit("load_average", m.load_average);
}
void fields(Is<BenchSettings> auto& s, const auto& visit) {
    visit("recipe", s.recipe);
    visit("batch", s.batch);
    visit("repetitions", s.repetitions);
    visit("steps", s.steps);
    visit("seconds", s.seconds);
    visit("warm_up", s.warm_up);
    visit("threads", s.threads);
    visit("validate", s.validate);
}
void fields(Is<KernelFigures> auto& k, const auto& visit) {
    visit("name", k.name);
    visit("kernel", k.kernel);
    visit("time_us", k.time_us);
    visit("share", k.share);
    visit("flops", k.flops);
    visit("bytes", k.bytes);
    visit("gflops", k.gflops);
    visit("gb_per_s", k.gb_per_s);
}
void fields(Is<CopyFigures> auto& c, const auto& visit) {
    visit("direction", c.direction);
    visit("bytes", c.bytes);
    visit("gb_per_s", c.gb_per_s);
    visit("device_gb_per_s", c.device_gb_per_s);
}
void fields(Is<LoadFigures> auto& l, const auto& visit) {
    visit("batch", l.batch);
    visit("step_us", l.step_us);
    visit("fixed_us", l.fixed_us);
    visit("per_example_us", l.per_example_us);
}
void fields(Is<DeviceFigures> auto& d, const auto& visit) {
    visit("id", d.id);
    visit("name", d.name);
    visit("vendor", d.vendor);
    visit("driver", d.driver);
    visit("kind", d.kind);
    visit("steps", d.steps);
    visit("examples_per_s", d.examples_per_s);
    visit("step_us", d.step_us);
    visit("host_us", d.host_us);
    visit("empty_step_us", d.empty_step_us);
    visit("device_memory_bytes", d.device_memory_bytes);
    visit("staging_memory_bytes", d.staging_memory_bytes);
    visit("kernels", d.kernels);
    visit("kernels_us", d.kernels_us);
    visit("timestamp_us", d.timestamp_us);
    visit("copies", d.copies);
    visit("load", d.load);
}
void fields(Is<SubsetFigures> auto& s, const auto& visit) {
    visit("towers", s.towers);
    visit("shares", s.shares);
    visit("predicted_step_us", s.predicted_step_us);
    visit("predicted_examples_per_s", s.predicted_examples_per_s);
    visit("predicted_share_of_sum", s.predicted_share_of_sum);
    visit("examples_per_s", s.examples_per_s);
    visit("step_us", s.step_us);
    visit("share_of_sum", s.share_of_sum);
    visit("refusal", s.refusal);
}
void fields(Is<TogetherFigures> auto& t, const auto& visit) {
    visit("towers", t.towers);
    visit("shares", t.shares);
    visit("steps", t.steps);
    visit("examples_per_s", t.examples_per_s);
    visit("step_us", t.step_us);
    visit("host_us", t.host_us);
    visit("share_of_sum", t.share_of_sum);
    visit("split_limit_examples_per_s", t.split_limit_examples_per_s);
    visit("beyond_slowest_us", t.beyond_slowest_us);
    visit("proposal", t.proposal);
    visit("subsets", t.subsets);
}
void fields(Is<AveragingFigures> auto& a, const auto& visit) {
    visit("towers", a.towers);
    visit("bytes", a.bytes);
    visit("gb_per_s", a.gb_per_s);
    visit("memcpy_gb_per_s", a.memcpy_gb_per_s);
    visit("ratio", a.ratio);
}
void fields(Is<LeftOut> auto& l, const auto& visit) {
    visit("what", l.what);
    visit("reason", l.reason);
}
void fields(Is<BenchReport> auto& r, const auto& visit) {
    visit("towers_version", r.towers_version);
    visit("date", r.date);
    visit("machine", r.machine);
    visit("settings", r.settings);
    visit("devices", r.devices);
    visit("together", r.together);
    visit("left_out", r.left_out);
    visit("averaging", r.averaging);
    visit("peak_memory_bytes", r.peak_memory_bytes);
}

template<class T>
concept Value = std::is_arithmetic_v<T> || std::same_as<T, std::string>;

// These functions call each other.
template<class T>
Json write(const std::optional<T>& value);
template<class T>
Json write(const std::vector<T>& values);

template<class T>
Json write(const T& value) {
    if constexpr (Value<T>) {
        return value;
    } else {
        Json object = Json::object();
        fields(value, [&](const char* name, const auto& field) { object[name] = write(field); });
        return object;
    }
}
template<class T>
Json write(const std::optional<T>& value) {
    return value ? write(*value) : Json(nullptr);
}
template<class T>
Json write(const std::vector<T>& values) {
    Json array = Json::array();
    for (const T& value : values) array.push_back(write(value));
    return array;
}

/// The JSON does not match a report.
struct Mismatch {
    std::string where;
};

template<class T>
void read(const Json& json, const std::string& where, std::optional<T>& value);
template<class T>
void read(const Json& json, const std::string& where, std::vector<T>& values);

template<class T>
void read(const Json& json, const std::string& where, T& value) {
    if constexpr (Value<T>) {
        const bool fits = std::same_as<T, std::string> ? json.is_string()
                          : std::same_as<T, bool>      ? json.is_boolean()
                          : std::floating_point<T>     ? json.is_number()
                                                       : json.is_number_unsigned();
        if (!fits) throw Mismatch{where};
        value = json.get<T>();
    } else {
        if (!json.is_object()) throw Mismatch{where};
        fields(value, [&](const char* name, auto& field) {
            const std::string inner = where.empty() ? name : where + "." + name;
            read(json.contains(name) ? json.at(name) : Json(), inner, field);
        });
    }
}
template<class T>
void read(const Json& json, const std::string& where, std::optional<T>& value) {
    if (json.is_null()) return; // missing in an earlier program's report; every optional field starts empty
    T present{};
    read(json, where, present);
    value = std::move(present);
}
template<class T>
void read(const Json& json, const std::string& where, std::vector<T>& values) {
    if (!json.is_array()) throw Mismatch{where};
    values.clear();
    for (std::size_t i = 0; i < json.size(); ++i)
        read(json[i], fmt::format("{}[{}]", where, i), values.emplace_back());
}

} // namespace

std::string to_json(const BenchReport& report) {
    Json json = {{"schema", BenchReport::schema}};
    json.update(write(report));
    // A device's name may have any encoding; bytes that are not UTF-8 are replaced, not refused.
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

BenchReport report_from_json(std::string_view text, const std::string& source) {
    const Json json = Json::parse(text, nullptr, false);
    if (!json.is_object() || !json.contains("schema") || !json.at("schema").is_number_integer())
        throw InputError(
            fmt::format("{} is not a report of 'towers bench'; give a file that its --json wrote", source));
    if (json.at("schema") != BenchReport::schema)
        throw InputError(fmt::format("{} has schema {}, but this program reads {}; measure again with --json",
                                     source, json.at("schema").dump(), BenchReport::schema));
    BenchReport report;
    try {
        read(json, "", report);
    } catch (const Mismatch& mismatch) {
        throw InputError(fmt::format("{} is not a complete report of 'towers bench': '{}' is missing or of "
                                     "another type; measure again with --json",
                                     source, mismatch.where));
    }
    for (const DeviceFigures& device : report.devices)
        if (!(device.examples_per_s.median > 0))
            throw InputError(fmt::format("{}: the rate of {} is not above 0; measure again with --json",
                                         source, device.id));
    return report;
}

} // namespace towers
