// Brings the images of batches to a device that does not hold all of a data set.
#pragma once

#include "engine/data/batch.h"
#include "engine/execution/session.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace towers {

/// Arena::records and Arena::staged_records have two halves, each with room for one batch. While a step reads
/// one half, the next batch's images can be copied into the other, on the queue for uploads.
class StagedImages {
public:
    /// The slots of Arena::records that batches of this size need. Halves begin at whole words. `strangers`:
    /// the most that a batch has of them.
    static constexpr std::size_t slots(std::size_t examples, std::size_t strangers = 0) {
        return 2 * ((examples + strangers + 7) / 8 * 8);
    }

    /// The session must hold the arenas of a plan that was made for these slots; `bytes`: of all slots.
    StagedImages(const Session& session, std::size_t bytes);

    /// Chooses the half for a step: the one with the batch's images, else the one that the last step did not
    /// use. Returns with_partners() in the slots where they are. Nothing may run that reads this half.
    std::vector<Example> choose(const Batch& batch);
    /// Copies the images to the chosen half's staging memory if they are not there.
    void stage(const Batch& batch);
    /// Submits their copy to the device if that has not been done. The step comes after the result.
    Ticket upload();

    /// The same for the half that the current step does not use; upload_prefetched() does nothing if it has
    /// no images.
    void prefetch(const Batch& batch);
    void upload_prefetched();

    /// Forgets what the halves hold, as after others have used the arenas.
    void forget();

private:
    struct Half {
        std::optional<std::uint64_t> first = {}; ///< position of its first example; empty: it has none
        std::size_t examples = 0;
        Ticket ticket = 0; ///< of the copy to the device; 0: not submitted
        Recording copy = {};

        bool has(const Batch& batch) const {
            return first == batch.first && examples == batch.examples.size();
        }
    };
    void stage(std::size_t half, const Batch& batch);
    Ticket upload(std::size_t half);

    Session session_; ///< shares the arenas
    std::size_t half_bytes_;
    std::array<Half, 2> halves_;
    std::size_t chosen_ = 1;
};

} // namespace towers
