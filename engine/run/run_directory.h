// The folder that holds what one run makes:
//   config.toml                      the effective configuration
//   recipe.toml                      the recipe, with the changes made to it
//   model.ckpt-<step>.safetensors    checkpoints
//   diverged-<step>.safetensors      a step whose loss or gradient was not finite
//   metrics.jsonl                    one JSON object a line
//   replaced-<n>/                    checkpoints and metrics that a run did not go on from (set_aside_after)
//   lock                             held while the run lasts; remains as an empty file
#pragma once

#include "engine/files/file.h"
#include "engine/run/safetensors.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace towers {

/// What to do when the folder already holds a run.
enum class Existing {
    refuse, ///< InputError
    resume, ///< go on with it; InputError when it holds no checkpoint
    erase   ///< delete the files listed above except the lock, and nothing else
};

/// One run's folder, locked against other runs for as long as this lives. All paths it gives lie within
/// `path()`. Every member throws InputError when a file operation fails.
class RunDirectory {
public:
    /// Creates the folder and its parents if missing. InputError when another run uses it, or as `existing`
    /// says.
    RunDirectory(const std::filesystem::path& path, Existing existing);

    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path config_path() const;
    std::filesystem::path recipe_path() const;
    std::filesystem::path metrics_path() const;
    std::filesystem::path checkpoint_path(std::uint64_t step) const;
    std::filesystem::path diverged_path(std::uint64_t step) const;

    /// As checkpoint_steps() gives them.
    std::vector<std::uint64_t> checkpoints() const;

    /// The checkpoint of the latest step.
    std::optional<std::filesystem::path> latest() const;

    /// Writes the checkpoint to the disk. Then deletes earlier steps' checkpoints, except for `keep` - 1
    /// before this one; 0 keeps all. The one before this always remains, since only the next step tells
    /// whether the new one's loss is finite. On an InputError all the earlier ones remain.
    void save_checkpoint(std::uint64_t step, const TensorFile& file, unsigned keep);

    /// Adds one line, given without its line end. On an InputError the file is unchanged, and the next call
    /// of this or sync_metrics() writes the line.
    void append_metrics(const std::string& json_line);

    /// Brings all lines to the disk. To be called before save_checkpoint(): a power cut could leave a
    /// checkpoint without the lines before it, and a resumed run would follow it. An InputError is as of
    /// append_metrics().
    void sync_metrics();

    /// For a run that goes on with `step`: deletes the lines of this step and later ones (by their "step"),
    /// and whatever a crash left that is not JSON.
    void truncate_metrics(std::uint64_t step);

    /// For a run that goes on from an earlier step: moves later checkpoints and copies the metrics into a new
    /// folder within path(), and returns its path. Does nothing when there are no later checkpoints.
    std::optional<std::filesystem::path> set_aside_after(std::uint64_t step);

    void write_config(const std::string& toml);
    void write_recipe(const std::string& toml);

private:
    void write_metrics();

    std::filesystem::path path_;
    FileDescriptor lock_, metrics_;
    std::string lines_;          ///< of the metrics that are not known to be on the disk
    std::size_t written_ = 0;    ///< how many bytes of them are in the file
    std::uint64_t unsynced_ = 0; ///< where in the file these begin
};

/// Creates the folder `path` or, if there is something of this name, `path`-2, `path`-3 ..., the first that
/// is free. Returns which. No two calls get the same one, not even at once in different programs. InputError
/// when that fails.
std::filesystem::path make_new_folder(const std::filesystem::path& path);

/// Where the run in this folder keeps its settings, its recipe and its metrics.
std::filesystem::path config_path_in(const std::filesystem::path& folder);
std::filesystem::path recipe_path_in(const std::filesystem::path& folder);
std::filesystem::path metrics_path_in(const std::filesystem::path& folder);

/// Whether a run uses a file of this name in its folder: one of those listed above.
bool is_taken_by_run(std::string_view name);

/// The path of this step's checkpoint. If it has none, an InputError names the steps that have one.
std::filesystem::path checkpoint_of(const std::filesystem::path& folder, std::uint64_t step);

/// The steps that have a checkpoint, ascending.
std::vector<std::uint64_t> checkpoint_steps(const std::filesystem::path& folder);

/// The checkpoint of the latest step in a folder, found without its lock: evaluation may run beside the
/// training. InputError when there is none.
std::filesystem::path latest_checkpoint(const std::filesystem::path& folder);

/// Calls `read` with that checkpoint. If it throws InputError because the training has since deleted the file
/// (--keep), calls it again with the checkpoint that is then the latest.
void read_latest_checkpoint(const std::filesystem::path& folder,
                            const std::function<void(const std::filesystem::path&)>& read);

} // namespace towers
