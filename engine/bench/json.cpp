#include "engine/bench/json.h"

#include "backends/error.h"

#include <concepts>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <type_traits>

namespace towers {
namespace {

using Json = nlohmann::ordered_json;

template<class T, class Struct>
concept Is = std::same_as<std::remove_const_t<T>, Struct>;

// The one list of every structure's fields, for writing and reading: fields() calls visit(name, field).
#define FIELD(name) visit(#name, structure.name);
#define FIELDS(Struct, ...)                                                                                  \
    void fields(Is<Struct> auto& structure, const auto& visit) {                                             \
        NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(FIELD, __VA_ARGS__))                                        \
    }

FIELDS(Spread, median, min, max)
FIELDS(BenchMachine, processor, processors, memory_bytes, system, kernel, load_average)
FIELDS(BenchSettings, recipe, batch, repetitions, steps, seconds, warm_up, threads, validate, precision,
       round_operands)
FIELDS(KernelFigures, name, kernel, variant, time_us, share, flops, bytes, gflops, gb_per_s)
FIELDS(CopyFigures, direction, bytes, gb_per_s, device_gb_per_s)
FIELDS(LoadFigures, batch, step_us, fixed_us, per_example_us)
FIELDS(OperandFigures, operands, part)
FIELDS(DeviceFigures, id, name, vendor, driver, kind, steps, examples_per_s, step_us, host_us, empty_step_us,
       device_memory_bytes, staging_memory_bytes, kernels, kernels_us, timestamp_us, copies, load,
       multiplications)
FIELDS(SubsetFigures, towers, shares, predicted_step_us, predicted_examples_per_s, predicted_share_of_sum,
       examples_per_s, step_us, share_of_sum, refusal)
FIELDS(TogetherFigures, towers, shares, steps, examples_per_s, step_us, host_us, share_of_sum,
       split_limit_examples_per_s, beyond_slowest_us, proposal, subsets)
FIELDS(AveragingFigures, towers, bytes, gb_per_s, memcpy_gb_per_s, ratio)
FIELDS(LeftOut, what, reason)
FIELDS(BenchReport, towers_version, date, machine, settings, devices, together, left_out, averaging,
       peak_memory_bytes)
FIELDS(RankFigures, host, towers, shares, examples_per_s, step_us)
FIELDS(ExchangeFigures, sent_bytes, step_us, visible_us, hidden)
FIELDS(ScaleFigures, machines, step_us, examples_per_s, share_of_sum)
FIELDS(RanksReport, towers_version, date, machine, settings, launcher, ranks, steps, examples_per_s, step_us,
       share_of_sum, exchange, predicted)

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

template<class Report>
std::string text_of(const Report& report) {
    Json json = {{"schema", Report::schema}};
    json.update(write(report));
    // A device's name may have any encoding; bytes that are not UTF-8 are replaced, not refused.
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace

std::string to_json(const BenchReport& report) { return text_of(report); }

std::string to_json(const RanksReport& report) { return text_of(report); }

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
