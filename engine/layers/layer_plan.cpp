#include "engine/layers/layer_plan.h"

namespace towers {

TensorId LayerPlan::make_output() {
    return around_.plan->activation(around_.name, shape_of(around_.out), ElementType::float32);
}

TensorId LayerPlan::variable(const std::string& name) const {
    return around_.variable(around_.name + '/' + name, Arena::state);
}

TensorId LayerPlan::gradient(const std::string& name) const {
    return around_.variable(around_.name + '/' + name, Arena::gradients);
}

TensorId LayerPlan::make_gradient(std::size_t index) {
    return around_.plan->activation(around_.gradients[index], shape_of(around_.in[index]),
                                    ElementType::float32);
}

TensorId LayerPlan::make(const std::string& role, TensorShape shape, ElementType type) {
    return around_.plan->activation(around_.name + ' ' + role, std::move(shape), type);
}

TensorPair LayerPlan::exchange(const std::string& role, const TensorPair& given, Merge merge, double values) {
    if (batch() == global_batch()) return given;
    return around_.plan->exchange(around_.name + ' ' + role, given, merge, values);
}

} // namespace towers
