#include "engine/run/run_directory.h"

#include "engine/run/read_metrics.h"

#include "backends/error.h"
#include "backends/files/atomic_file.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <span>
#include <spdlog/spdlog.h>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace towers {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view config_name = "config.toml";
constexpr std::string_view recipe_name = "recipe.toml";
constexpr std::string_view choices_name = "choices.json";
constexpr std::string_view metrics_name = "metrics.jsonl";
constexpr std::string_view times_name = "times.jsonl";
constexpr std::string_view report_name = "report.html";
constexpr std::string_view lock_name = "lock";
constexpr std::string_view best_name = "best.safetensors";
constexpr std::string_view checkpoint_prefix = "model.ckpt-";
constexpr std::string_view diverged_prefix = "diverged-";
constexpr std::string_view step_suffix = ".safetensors";
// The beginning is what TensorBoard looks for; the end tells a run's own files from others'.
constexpr std::string_view events_prefix = "events.out.tfevents.";
constexpr std::string_view events_suffix = ".towers";

std::string name_of_step(std::string_view prefix, std::uint64_t step) {
    return fmt::format("{}{}{}", prefix, step, step_suffix);
}

std::string checkpoint_name(std::uint64_t step) { return name_of_step(checkpoint_prefix, step); }

std::optional<std::uint64_t> step_of(std::string_view name, std::string_view prefix = checkpoint_prefix) {
    if (!name.starts_with(prefix) || !name.ends_with(step_suffix)) return std::nullopt;
    std::uint64_t step = 0;
    std::from_chars(name.data() + prefix.size(), name.data() + name.size(), step);
    // Accepts the number only as a run writes it: a file with leading zeros would be deleted or read under
    // another name.
    if (name != name_of_step(prefix, step)) return std::nullopt;
    return step;
}

std::string events_name(std::uint64_t seconds) {
    return fmt::format("{}{:010}{}", events_prefix, seconds, events_suffix);
}

std::optional<std::uint64_t> seconds_of_events(std::string_view name) {
    if (!name.starts_with(events_prefix) || !name.ends_with(events_suffix)) return {};
    std::uint64_t seconds = 0;
    std::from_chars(name.data() + events_prefix.size(), name.data() + name.size(), seconds);
    return name == events_name(seconds) ? std::optional(seconds) : std::nullopt;
}

/// Whether a file of this name belongs to what a run has made.
bool is_run_file(std::string_view name) {
    return name == config_name || name == recipe_name || name == choices_name || name == metrics_name ||
           name == times_name || name == report_name || name == best_name || step_of(name) ||
           step_of(name, diverged_prefix) || seconds_of_events(name);
}

std::vector<std::string> names_in(const fs::path& folder) {
    std::vector<std::string> names;
    std::error_code error;
    fs::directory_iterator entry(folder, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error))
        names.push_back(entry->path().filename().string());
    if (error) throw_file_error("read", folder, error.value());
    return names;
}

void delete_file(const fs::path& path) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw_file_error("delete", path, errno);
}

void delete_if(const fs::path& folder, bool (*condition)(std::string_view name)) {
    for (const std::string& name : names_in(folder))
        if (condition(name)) delete_file(folder / name);
}

void make_folder(const fs::path& path) {
    std::error_code error;
    fs::create_directories(path, error);
    if (!error && !fs::is_directory(path, error)) error = std::make_error_code(std::errc::not_a_directory);
    if (error) throw_file_error("create the run directory", path, error.value());
}

/// Whether the file system has no such lock (ENOTSUP is EOPNOTSUPP too). NFS, Lustre and FUSE may have one
/// kind and not the other.
bool means_no_such_lock(int error) {
    return error == ENOSYS || error == ENOLCK || error == ENOTSUP || error == EINVAL;
}

/// The error of a system call, or 0. Goes on where a signal interrupts it.
template<class Call>
int error_of(const Call& call) {
    while (call() != 0)
        if (errno != EINTR) return errno;
    return 0;
}

/// Locks a file until it is closed; the error, or 0.
int lock_whole(const FileDescriptor& file) {
    const int error = error_of([&] { return ::flock(file.get(), LOCK_EX | LOCK_NB); });
    if (!means_no_such_lock(error)) return error;
    struct flock range {};
    range.l_type = F_WRLCK;
    range.l_whence = SEEK_SET;
    const int other = error_of([&] { return ::fcntl(file.get(), F_OFD_SETLK, &range); });
    return other == EACCES ? EWOULDBLOCK : other;
}

FileDescriptor take_lock(const fs::path& folder) {
    const fs::path path = folder / lock_name;
    FileDescriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!lock) throw_file_error("write", path, errno);
    const int error = lock_whole(lock);
    if (error == EWOULDBLOCK)
        throw InputError(fmt::format("{} is in use by another run; wait until it ends or name another --run",
                                     folder.string()));
    if (error != 0 && !means_no_such_lock(error)) throw_file_error("lock", path, error);
    if (error != 0)
        spdlog::warn("{} cannot be locked: {}; the run goes on, so start no other one there", path.string(),
                     std::generic_category().message(error));
    return lock;
}

// Whether a line belongs to `step` or a later one, or was cut off by a crash. A test pass before `step`, with
// its number, came before the checkpoint. What has happened stays so.
bool is_stale(std::string_view line, std::uint64_t step) {
    const nlohmann::json parsed = nlohmann::json::parse(line, nullptr, false);
    if (!parsed.is_object()) return true;
    if (parsed.contains("event")) return false;
    const auto found = parsed.find("step");
    const std::uint64_t first = is_test_pass(parsed) ? step + 1 : step;
    return found != parsed.end() && found->is_number_unsigned() && found->get<std::uint64_t>() >= first;
}

// Leaves out the stale lines.
void truncate(AppendFile& file, std::uint64_t step) {
    std::error_code error;
    if (!fs::exists(file.path(), error)) return;
    const std::string text = read_file(file.path());
    std::string kept;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = text.find('\n', begin);
        if (end == std::string::npos) break; // incomplete, even if it happens to be JSON
        const std::string_view line = std::string_view(text).substr(begin, end - begin);
        if (!is_stale(line, step)) kept.append(line).append(1, '\n');
        begin = end + 1;
    }
    file.sync();
    file.close(); // would keep writing to the replaced file
    if (kept != text) write_file_atomically(file.path(), kept);
}

} // namespace

RunDirectory::RunDirectory(const fs::path& path, Existing existing)
    : path_(path), metrics_(metrics_path_in(path)), times_(times_path_in(path)) {
    // Comes before locking, which would leave a file in a folder that the user named by mistake.
    if (existing == Existing::resume) latest_checkpoint(path_);
    make_folder(path_);
    lock_ = take_lock(path_);

    if (existing == Existing::erase) delete_if(path_, is_run_file);
    if (existing == Existing::resume) latest_checkpoint(path_); // another run may have erased it meanwhile
    if (existing == Existing::refuse)
        for (const std::string& name : names_in(path_))
            if (is_run_file(name))
                throw InputError(fmt::format("{} already holds a run ({}); use --resume to go on with it, or "
                                             "name another --run",
                                             path_.string(), name));
    delete_if(path_, [](std::string_view name) { return is_run_file(name_behind_temporary(name)); });
}

fs::path RunDirectory::metrics_path() const { return metrics_path_in(path_); }
fs::path RunDirectory::checkpoint_path(std::uint64_t step) const { return path_ / checkpoint_name(step); }
fs::path RunDirectory::diverged_path(std::uint64_t step) const {
    return path_ / name_of_step(diverged_prefix, step);
}

fs::path RunDirectory::best_path() const { return path_ / best_name; }

void RunDirectory::save_best(TensorFile file, const Best& best) {
    file.metadata["best_by"] = best.by;
    file.metadata["best_value"] = fmt::format("{}", best.value);
    write_safetensors(best_path(), file);
}

std::optional<RunDirectory::Best> RunDirectory::best() const {
    std::error_code error;
    if (!fs::exists(best_path(), error)) return std::nullopt;
    try {
        const auto no_tensor = [](const std::string&) { return false; };
        const auto metadata = read_safetensors(best_path(), no_tensor).metadata;
        const bool named = metadata.contains("best_by"); // early versions had one metric
        return Best{std::stoull(metadata.at("step")), named ? metadata.at("best_by") : "accuracy",
                    std::stod(metadata.at(named ? "best_value" : "precision"))};
    } catch (const std::exception&) {
        return std::nullopt;
    }
}

void RunDirectory::save_checkpoint(std::uint64_t step, const TensorFile& file, unsigned keep) {
    write_safetensors(checkpoint_path(step), file);
    if (keep == 0) return;
    std::vector<std::uint64_t> steps = checkpoint_steps(path_);
    steps.erase(std::upper_bound(steps.begin(), steps.end(), step), steps.end());
    const std::size_t kept = std::max(keep, 2u);
    if (steps.size() <= kept) return;
    steps.resize(steps.size() - kept);
    for (const std::uint64_t old : steps) delete_file(checkpoint_path(old));
}

void RunDirectory::append_metrics(const std::string& json_line) { metrics_.append(json_line + '\n'); }

void RunDirectory::truncate_lines(std::uint64_t step) {
    truncate(metrics_, step);
    truncate(times_, step);
}

std::optional<fs::path> RunDirectory::set_aside_after(std::uint64_t step) {
    std::vector<std::uint64_t> later = checkpoint_steps(path_);
    later.erase(later.begin(), std::upper_bound(later.begin(), later.end(), step));
    if (later.empty()) return std::nullopt;
    fs::path folder;
    std::error_code error;
    for (int i = 1; folder.empty() || fs::exists(folder, error); ++i)
        folder = path_ / fmt::format("replaced-{}", i);
    make_folder(folder);
    // Copies the lines first: if the run is killed in between, a later checkpoint is still in place to go
    // on from.
    for (const fs::path& file : {metrics_path(), times_path()})
        if (fs::exists(file, error)) write_file_atomically(folder / file.filename(), read_file(file));
    for (const std::uint64_t each : later)
        if (::rename(checkpoint_path(each).c_str(), (folder / checkpoint_name(each)).c_str()) != 0)
            throw_file_error("move", checkpoint_path(each), errno);
    if (const auto found = best(); found && found->step > step)
        if (::rename(best_path().c_str(), (folder / best_name).c_str()) != 0)
            throw_file_error("move", best_path(), errno);
    return folder;
}

fs::path RunDirectory::make_events_file() const {
    auto seconds = std::uint64_t(std::time(nullptr));
    std::error_code ignored;                                         // creating the file tells of it
    for (const auto& entry : fs::directory_iterator(path_, ignored)) // the clock may have been set back
        if (const auto earlier = seconds_of_events(entry.path().filename().string()))
            seconds = std::max(seconds, *earlier + 1);
    for (;; ++seconds) {
        const fs::path path = path_ / events_name(seconds);
        if (FileDescriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666))) return path;
        if (errno != EEXIST) throw_file_error("write", path, errno);
    }
}

void RunDirectory::write_config(const std::string& toml) {
    write_file_atomically(config_path_in(path_), toml);
}

void RunDirectory::write_recipe(const std::string& toml) {
    write_file_atomically(recipe_path_in(path_), toml);
}

void RunDirectory::write_choices(const std::string& json) {
    write_file_atomically(choices_path_in(path_), json);
}

bool is_taken_by_run(std::string_view name) { return is_run_file(name) || name == lock_name; }

fs::path make_new_folder(const fs::path& path) {
    if (path.has_parent_path()) make_folder(path.parent_path());
    fs::path name = path;
    for (int i = 2; ::mkdir(name.c_str(), 0777) != 0; ++i) {
        if (errno != EEXIST) throw_file_error("create the run directory", name, errno);
        name = fmt::format("{}-{}", path.string(), i);
    }
    return name;
}

fs::path config_path_in(const fs::path& folder) { return folder / config_name; }
fs::path recipe_path_in(const fs::path& folder) { return folder / recipe_name; }
fs::path choices_path_in(const fs::path& folder) { return folder / choices_name; }
fs::path metrics_path_in(const fs::path& folder) { return folder / metrics_name; }
fs::path times_path_in(const fs::path& folder) { return folder / times_name; }
fs::path report_path_in(const fs::path& folder) { return folder / report_name; }

std::vector<std::uint64_t> checkpoint_steps(const fs::path& folder) {
    std::error_code error;
    if (!fs::exists(folder, error))
        throw InputError(fmt::format("there is no run directory {}; check its name", folder.string()));
    std::vector<std::uint64_t> steps;
    for (const std::string& name : names_in(folder))
        if (const auto step = step_of(name)) steps.push_back(*step);
    std::sort(steps.begin(), steps.end());
    return steps;
}

fs::path checkpoint_of(const fs::path& folder, std::uint64_t step) {
    latest_checkpoint(folder); // throws if there is none at all
    const std::vector<std::uint64_t> steps = checkpoint_steps(folder);
    if (!std::binary_search(steps.begin(), steps.end(), step))
        throw InputError(fmt::format("{} holds no checkpoint of step {}; choose one of {}", folder.string(),
                                     step, fmt::join(steps, ", ")));
    return folder / checkpoint_name(step);
}

fs::path latest_checkpoint(const fs::path& folder) {
    const std::vector<std::uint64_t> steps = checkpoint_steps(folder);
    if (steps.empty())
        throw InputError(fmt::format(
            "{} holds no checkpoint (model.ckpt-<step>.safetensors); give another run, or train first",
            folder.string()));
    return folder / checkpoint_name(steps.back());
}

void read_latest_checkpoint(const fs::path& folder, const std::function<void(const fs::path&)>& read) {
    for (fs::path path = latest_checkpoint(folder);;) {
        try {
            return read(path);
        } catch (const InputError&) {
            const fs::path latest = latest_checkpoint(folder);
            if (latest == path) throw; // the file still exists, so it is bad
            path = latest;
        }
    }
}

} // namespace towers
