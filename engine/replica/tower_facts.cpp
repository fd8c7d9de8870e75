#include "engine/replica/tower_facts.h"

#include "engine/replica/tower.h"

namespace towers {

TowerFacts facts_of(const Tower& tower) {
    return {.name = tower.info().id,
            .host = {},
            .info = tower.info(),
            .share = tower.share(),
            .at_once = tower.at_once(),
            .memory = tower.memory()};
}

} // namespace towers
