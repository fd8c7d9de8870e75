#include "engine/tuning/measure.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace towers {
namespace {

/// Float32 sums of 10^5 products, by whatever method, stay far below it; a wrong element in a thousand is far
/// above. Operands that are rounded add at most what rounding changes.
constexpr double largest_error = 1e-4;
/// What takes so many times as long as the fastest is not run again, and what still does after a round.
constexpr double hopeless = 2, slower = 1.2;
/// A shorter time may be that of a pause, so it is looked at again.
constexpr double long_us = 20e3;
constexpr unsigned runs_to_doubt = 2;
/// Of one round, and of all of them, unless a launch takes longer
constexpr double round_us = 2e3, rounds_us = 20e3;
constexpr unsigned most_launches = 16, least_rounds = 2, most_rounds = 5;
/// Of new recordings: a device may measure or compile in their first submissions.
constexpr unsigned rounds_to_warm_up = 2;

constexpr double never = std::numeric_limits<double>::infinity();

double median(std::vector<double> values) {
    const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
    std::ranges::nth_element(values, middle);
    return *middle;
}

/// Chooses how a launch runs, until its end.
class ChosenMeanwhile {
public:
    ChosenMeanwhile(Choices& choices, const std::string& key, const Candidate& candidate)
        : choices_(choices), key_(key) {
        if (const auto found = choices.find(key); found != choices.end()) before_ = found->second;
        choices[key] = {std::string(candidate.variant), candidate.config};
    }
    ChosenMeanwhile(const ChosenMeanwhile&) = delete;
    ChosenMeanwhile& operator=(const ChosenMeanwhile&) = delete;
    ~ChosenMeanwhile() {
        if (before_)
            choices_.find(key_)->second = std::move(*before_);
        else
            choices_.erase(key_);
    }

private:
    Choices& choices_;
    const std::string& key_;
    std::optional<Chosen> before_;
};

class Measurement {
public:
    Measurement(Device& device, Choices& choices, const PlannedLaunch& planned,
                std::span<const Candidate> candidates, const Measuring& how)
        : bench_(device, planned), choices_(choices), key_(key_of(*planned.launch)), how_(how) {
        for (const Candidate& each : candidates) ways_.push_back({.measured = {each, {}, {}}});
    }

    std::vector<Measured> run() {
        if (is_over()) return {};
        if (make_expected())
            for (Way& way : ways_) {
                if (is_over()) return {};
                look_at(way);
            }
        take_rounds();
        if (how_.only_fastest) compare_fastest();
        std::vector<Measured> all;
        for (const Way& way : ways_) all.push_back(way.measured);
        return all;
    }

private:
    struct Way {
        Measured measured;
        Recording recording = {};    ///< null: it is not run any more
        unsigned launches = 0;       ///< of the recording
        std::vector<double> us = {}; ///< of all rounds
    };

    bool is_over() const { return how_.is_over && how_.is_over(); }

    /// Without success if the device refuses.
    void record(Way& way, unsigned launches) {
        way.recording.reset(); // and its scratch memory
        way.launches = launches;
        const ChosenMeanwhile chosen(choices_, key_, way.measured.candidate);
        try {
            way.recording = bench_.record(launches);
        } catch (const OutOfMemory&) {
            if (&way == &ways_.back()) throw; // the others may need scratch memory that is not there
        } catch (const DeviceError&) {        // such as a pipeline that the driver cannot compile
        }
    }

    double run(const Way& way) { return bench_.run(way.recording, way.launches).front(); }

    /// Returns how long that took.
    double compare(Way& way) {
        double us = 0;
        way.measured.error = error_of(bench_.results(way.recording, way.launches, us), expected_);
        return us;
    }

    bool make_expected() {
        Way& plainest = ways_.back();
        record(plainest, 1);
        if (!plainest.recording) return false;
        double us = 0;
        bench_.fill_inputs(false);
        expected_ = bench_.results(plainest.recording, 1, us);
        if (!all_finite(expected_)) { // it may take roots or logarithms
            bench_.fill_inputs(true);
            expected_ = bench_.results(plainest.recording, 1, us);
        }
        if (how_.only_fastest) plainest.measured.error = 0;
        return true;
    }

    /// Times a way for the first time.
    void look_at(Way& way) {
        Measured& measured = way.measured;
        if (!way.recording) record(way, 1);
        if (!way.recording) return;
        measured.us = how_.only_fastest ? run(way) : compare(way);
        const auto is_hopeless = [&] { return *measured.us > hopeless * least_; };
        if (*measured.us <= long_us || !is_hopeless()) measured.us = run(way);
        if (how_.only_fastest) {
            for (unsigned i = 0; i < runs_to_doubt && *measured.us <= long_us && is_hopeless(); ++i)
                measured.us = std::min(*measured.us, run(way));
            if (*measured.us < least_ && !measured.error) compare(way);
        }
        if (measured.is_right()) least_ = std::min(least_, *measured.us);
        if (measured.is_wrong() || (is_hopeless() && (how_.only_fastest || *measured.us > long_us)))
            way.recording.reset();
    }

    void take_rounds() {
        const auto launches =
            unsigned(std::clamp(round_us / std::max(least_, 1.0), 1.0, double(most_launches)));
        const double round = launches * std::max(least_, 1.0);
        const auto rounds =
            unsigned(std::clamp(rounds_us / round, double(least_rounds), double(most_rounds)));
        for (Way& way : ways_) {
            if (how_.only_fastest && way.recording && *way.measured.us > hopeless * least_)
                way.recording.reset();
            if (!way.recording || launches == 1) continue;
            record(way, launches);
            if (!way.recording) way.measured.us.reset();
        }
        for (unsigned i = 0; launches > 1 && i < rounds_to_warm_up; ++i)
            for (Way& way : ways_)
                if (way.recording) run(way);
        double best = never;
        for (unsigned i = 0; i < rounds; ++i)
            for (Way& way : ways_) {
                const bool is_slower = !way.us.empty() && *way.measured.us > slower * best;
                if (how_.only_fastest && is_slower) way.recording.reset();
                if (!way.recording) continue;
                if (is_over()) return;
                const std::vector<double> us = bench_.run(way.recording, way.launches);
                way.us.insert(way.us.end(), us.begin(), us.end());
                way.measured.us = median(way.us);
                best = std::min(best, *way.measured.us);
            }
    }

    /// By its median it may be another than at first.
    void compare_fastest() {
        for (;;) {
            const auto time = [](const Way& way) {
                return way.measured.us && !way.measured.is_wrong() ? *way.measured.us : never;
            };
            Way& way = *std::ranges::min_element(ways_, {}, time);
            if (time(way) == never || way.measured.error) return;
            if (!way.recording) record(way, 1);
            if (way.recording)
                compare(way);
            else
                way.measured.us.reset();
        }
    }

    LaunchBench bench_;
    Choices& choices_;
    const std::string key_;
    const Measuring& how_;
    std::vector<Way> ways_;
    std::vector<float> expected_; ///< the plainest one's results
    double least_ = never;        ///< the shortest time so far of a way that is right
};

} // namespace

bool Measured::is_right() const {
    const Precision operands = candidate.config.operands;
    const double of_operands = operands == Precision::fp32 ? 0 : rounding_of(operands);
    return error && *error <= largest_error + of_operands;
}

std::vector<Measured> measure(Device& device, Choices& choices, const PlannedLaunch& planned,
                              std::span<const Candidate> candidates, const Measuring& how) {
    return Measurement(device, choices, planned, candidates, how).run();
}

} // namespace towers
