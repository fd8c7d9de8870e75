// Flags that several commands have, and what they share besides.
#pragma once

#include "backends/backend.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace towers {

struct Recipe;

/// The stream for what people read: standard output, or standard error if one of these files, which the
/// command writes, is standard output.
std::FILE* text_stream(std::initializer_list<std::string> files);

// The help of these flags
extern const char* const recipe_help;
extern const char* const set_help;
extern const char* const threads_help;
extern const char* const exact_products_help;
extern const std::string precision_help;
extern const char* const round_operands_help;

/// `fp32, tf32, bf16 or fp16`
std::string precision_words();

/// Adds --set, for changes to the recipe, to a command that does not use add_settings().
CLI::Option* add_set(CLI::App& command, std::vector<std::string>& changes);

/// find_recipe(), which says what the changes take out.
Recipe recipe_with(const std::string& name, const std::vector<std::string>& changes);

/// Adds --threads, for the CPU backend, to a command that does not use add_settings().
void add_threads(CLI::App& command, unsigned& threads);

/// Adds --exact-products likewise.
void add_exact_products(CLI::App& command, bool& exact_products);

/// What --precision and --round-operands say.
struct PrecisionFlags {
    std::string precision;                   ///< empty: nothing
    std::optional<bool> round_operands = {}; ///< none: nothing
};

/// Adds both to a command that does not use add_settings(). `otherwise`: whose precision is the default.
void add_precision(CLI::App& command, PrecisionFlags& flags, const std::string& otherwise);

/// Sets OpenOptions::precision and round_operands as the flags say, else as a run was `trained`, else as the
/// recipe says. Throws UsageError.
void choose_precision(OpenOptions& open, const PrecisionFlags& flags, const PrecisionFlags& trained,
                      const Recipe& recipe);

/// Throws UsageError if there is no such precision.
void check_precision(const PrecisionFlags& flags);

/// Throws UsageError if there are too many; warns if OpenMP gives fewer.
void check_threads(unsigned threads);

constexpr double default_timeout = 60; ///< of --device-timeout, in seconds

/// Adds --validate, which is not among a run's settings, and the --device-timeout of all commands.
void add_validate(CLI::App& command, OpenOptions& options);

/// Adds the flags for opening devices to a command that does not use add_settings().
void add_device_flags(CLI::App& command, OpenOptions& options);

/// OpenOptions::timeout of --device-timeout. Throws UsageError if it is no number of seconds.
double device_timeout(double seconds);

} // namespace towers
