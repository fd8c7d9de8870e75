#include "engine/plan/work.h"

#include <cstddef>
#include <set>

namespace towers {
namespace {

double flops_of(const ConvShape& s) {
    return 2.0 * s.batch * s.out_height * s.out_width * s.out_channels * s.kernel_height * s.kernel_width *
           (s.in_channels / s.groups);
}

} // namespace

double flops_of(const Launch& launch) {
    switch (launch.kernel) {
    case Kernel::conv2d_forward:
    case Kernel::depthwise_conv2d_forward:
        return flops_of(launch.parameters.as<Conv2dForwardParams>().shape);
    case Kernel::conv2d_backward_data:
    case Kernel::depthwise_conv2d_backward_data:
        return flops_of(launch.parameters.as<Conv2dBackwardDataParams>().shape);
    case Kernel::conv2d_backward_weights:
    case Kernel::depthwise_conv2d_backward_weights:
        return flops_of(launch.parameters.as<Conv2dBackwardWeightsParams>().shape);
    default:
        return 0;
    }
}

double flops_of(const Plan& plan) {
    double sum = 0;
    for (const Level& level : plan.levels())
        for (const Operation& operation : level)
            if (const auto* launch = std::get_if<Launch>(&operation.work)) sum += flops_of(*launch);
    return sum;
}

Cost cost_of(const Operation& operation, const Plan& plan) {
    Cost cost;
    std::set<std::size_t> read;
    for (const Plan::Use& use : Plan::uses(operation)) {
        const PlannedTensor& tensor = plan.at(use.tensor);
        if (tensor.arena == Arena::records) continue; // a step reads only a few of the records
        const bool reads =
            use.reads && read.insert(use.tensor.index()).second; // once, under any number of names
        cost.bytes += double(tensor.bytes) * (int(reads) + int(use.writes));
    }
    if (const auto* launch = std::get_if<Launch>(&operation.work)) cost.flops = flops_of(*launch);
    return cost;
}

} // namespace towers
