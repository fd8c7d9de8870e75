// The folder with everything that one run writes:
//   config.toml                      the effective configuration
//   recipe.toml                      the recipe, with the changes made to it
//   model.ckpt-<step>.safetensors    checkpoints
//   best.safetensors                 the checkpoint with the best test accuracy
//   diverged-<step>.safetensors      a step whose loss or gradient was not finite
//   choices.json                     how the devices run launches, if that was measured
//   metrics.jsonl                    one JSON object per line
//   times.jsonl                      the same, of what the metrics leave out: times, and what happened
//   events.out.tfevents.<t>.towers   summaries for TensorBoard, a file for each start; t: seconds since 1970
//   report.html                      a page about the run
//   replaced-<n>/                    checkpoints, metrics and times that were set aside (set_aside_after)
//   lock                             locked while the run lasts; remains as an empty file
#pragma once

#include "backends/files/file.h"
#include "engine/files/append_file.h"
#include "engine/run/safetensors.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace towers {

/// What to do if the folder already holds a run.
enum class Existing {
    refuse, ///< InputError
    resume, ///< continue it; InputError if there is no checkpoint
    erase   ///< delete the files listed above except the lock, and nothing else
};

/// One run's folder, locked against other runs during this object's lifetime. All returned paths lie within
/// `path()`. Every member throws InputError if a file operation fails.
class RunDirectory {
public:
    /// Creates the folder and its parents if missing. Throws InputError if another run uses it, or as
    /// `existing` says.
    RunDirectory(const std::filesystem::path& path, Existing existing);

    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path metrics_path() const;
    std::filesystem::path times_path() const { return times_.path(); }
    std::filesystem::path checkpoint_path(std::uint64_t step) const;
    std::filesystem::path diverged_path(std::uint64_t step) const;
    std::filesystem::path best_path() const;

    /// Writes the checkpoint to the disk. Then deletes all but the latest `keep` - 1 of the earlier
    /// checkpoints; 0 keeps all. The one before this always remains, since only the next step shows whether
    /// the new one's loss is finite. After an InputError all earlier ones remain.
    void save_checkpoint(std::uint64_t step, const TensorFile& file, unsigned keep);

    struct Best {
        std::uint64_t step;
        std::string by; ///< the metric's name
        double value;   ///< of the metric
    };
    /// Writes best_path() to the disk: a checkpoint, whose metadata get metric and value. After an InputError
    /// the earlier one remains.
    void save_best(TensorFile file, const Best& best);
    /// What is there; none if it is not sound.
    std::optional<Best> best() const;

    /// Appends one line, given without its line end. After an InputError the file is unchanged, and the next
    /// call of this or of sync_metrics() writes the line.
    void append_metrics(const std::string& json_line);

    void append_times(const std::string& json_line) { times_.append(json_line + '\n'); } ///< likewise

    /// Syncs all lines to the disk. Call it before save_checkpoint(): otherwise a power cut could leave a
    /// checkpoint without the lines before it, and a resumed run would lack them. Throws InputError as
    /// append_metrics() does.
    void sync_metrics() { metrics_.sync(); }
    void sync_times() { times_.sync(); } ///< likewise

    /// For a run that continues with `step`: deletes the metrics' and the times' lines of this and later
    /// steps (by their "step"), of test passes after later ones, and lines that a crash cut off. What has
    /// happened (lines with an "event") stays.
    void truncate_lines(std::uint64_t step);

    /// For a run that continues from an earlier step: moves later checkpoints, best_path() if it is later
    /// too, and copies metrics and times into a new folder in path(), whose path it returns. Does nothing if
    /// there are no later checkpoints.
    std::optional<std::filesystem::path> set_aside_after(std::uint64_t step);

    void write_config(const std::string& toml);
    void write_recipe(const std::string& toml);
    void write_choices(const std::string& json);

    /// Creates the file for this start's summaries, empty, with a name after those of earlier starts.
    std::filesystem::path make_events_file() const;

private:
    std::filesystem::path path_;
    FileDescriptor lock_;
    AppendFile metrics_, times_;
};

/// Creates and returns the first of the folders `path`, `path`-2, `path`-3 ... that does not exist yet. No
/// two calls get the same folder, even in different programs at once. Throws InputError if that fails.
std::filesystem::path make_new_folder(const std::filesystem::path& path);

/// The paths of the settings, the recipe, the choices, the metrics, the times and the page in this run's
/// folder.
std::filesystem::path config_path_in(const std::filesystem::path& folder);
std::filesystem::path recipe_path_in(const std::filesystem::path& folder);
std::filesystem::path choices_path_in(const std::filesystem::path& folder);
std::filesystem::path metrics_path_in(const std::filesystem::path& folder);
std::filesystem::path times_path_in(const std::filesystem::path& folder);
std::filesystem::path report_path_in(const std::filesystem::path& folder);

/// Whether a run uses a file of this name in its folder: one of those listed above.
bool is_taken_by_run(std::string_view name);

/// The path of this step's checkpoint. Throws InputError, which names the steps with a checkpoint, if there
/// is none.
std::filesystem::path checkpoint_of(const std::filesystem::path& folder, std::uint64_t step);

/// The steps with a checkpoint, ascending.
std::vector<std::uint64_t> checkpoint_steps(const std::filesystem::path& folder);

/// The checkpoint of the latest step in a folder. Takes no lock, so evaluation may run during the training.
/// Throws InputError if there is none.
std::filesystem::path latest_checkpoint(const std::filesystem::path& folder);

/// Calls `read` with the latest checkpoint. If `read` throws InputError because the training has deleted the
/// file meanwhile (--keep), calls it again with the checkpoint that is the latest then.
void read_latest_checkpoint(const std::filesystem::path& folder,
                            const std::function<void(const std::filesystem::path&)>& read);

} // namespace towers
