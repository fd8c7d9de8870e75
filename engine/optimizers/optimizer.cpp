#include "engine/optimizers/optimizer.h"

namespace towers {

#define TOWERS_OPTIMIZER(name) std::unique_ptr<Optimizer> make_##name(Attributes& attributes);
#include "engine/optimizers/optimizers.def"
#undef TOWERS_OPTIMIZER

std::unique_ptr<const Optimizer> read_optimizer(Attributes attributes) {
    const std::string kind = attributes.choice("kind", {
#define TOWERS_OPTIMIZER(name) #name,
#include "engine/optimizers/optimizers.def"
#undef TOWERS_OPTIMIZER
                                                       });
    std::unique_ptr<Optimizer> optimizer;
#define TOWERS_OPTIMIZER(name)                                                                               \
    if (kind == #name) optimizer = make_##name(attributes);
#include "engine/optimizers/optimizers.def"
#undef TOWERS_OPTIMIZER
    optimizer->learning_rate = attributes.number("learning_rate", 0, 1e6);
    optimizer->weight_decay = float(attributes.number("weight_decay", 0, 1e6, 0));
    optimizer->decays_all = attributes.choice("decays", {"weights", "all"}, "weights") == "all";
    if (attributes.has("clip_norm"))
        optimizer->clip_norm = float(attributes.number("clip_norm", 1e-30, 1e30));
    attributes.done();
    return optimizer;
}

} // namespace towers
