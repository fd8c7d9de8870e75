#include "engine/step/fuse.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace towers {
namespace {

/// The parameter block of an operation if it launches this kernel; else null.
template<class Params>
std::optional<Params> launched(const Operation& operation, KernelHandle<Params> kernel) {
    const auto* launch = std::get_if<Launch>(&operation.work);
    if (launch == nullptr || launch->kernel != kernel.kernel) return {};
    return launch->parameters.template as<Params>();
}

template<class Params>
void set(Operation& operation, const Params& params) {
    std::get<Launch>(operation.work).parameters = ParameterBlock::of(params);
}

template<class Pointer>
TensorId id_of(const Pointer& pointer) {
    return TensorId::of(reinterpret_cast<std::uint64_t>(pointer.at));
}

class Fusion {
public:
    explicit Fusion(Plan& plan)
        : operations_(plan.operations()), maker_(plan.tensors().size(), nullptr),
          readers_(plan.tensors().size()) {
        for (Operation& operation : operations_)
            for (const Plan::Use& use : Plan::uses(operation))
                if (use.writes)
                    maker_[use.tensor.index()] = &operation;
                else
                    readers_[use.tensor.index()].push_back(&operation);
    }

    void run() {
        for (Operation& operation : operations_)
            if (const auto relu = launched(operation, kernels::relu_forward)) fuse(operation, *relu);
        for (Operation& operation : operations_)
            if (const auto sum = launched(operation, kernels::add_tensors)) fuse(operation, *sum);
        for (Operation& operation : operations_)
            if (const auto relu = launched(operation, kernels::relu_backward)) fuse(operation, *relu);
        std::erase_if(operations_, [](const Operation& operation) { return operation.name.empty(); });
    }

private:
    static void drop(Operation& operation) { operation = {{}, PlannedCopy{}}; } // never matches again

    /// If the operation launches the kernel, makes it write `y`, the ReLU of its output.
    template<class Params>
    bool activate(Operation& operation, KernelHandle<Params> kernel, TensorId y) {
        auto p = launched(operation, kernel);
        if (!p || p->relu != 0) return false;
        p->y = y;
        p->relu = 1;
        set(operation, *p);
        maker_[y.index()] = &operation;
        return true;
    }

    void fuse(Operation& relu, const ActivationForwardParams& p) {
        const TensorId x = id_of(p.x), y = id_of(p.y);
        Operation* const before = maker_[x.index()];
        if (before == nullptr || readers_[x.index()].size() != 1) return;
        if (activate(*before, kernels::conv2d_forward, y) ||
            activate(*before, kernels::batch_norm_forward, y) || activate(*before, kernels::add_tensors, y))
            drop(relu);
    }

    /// Fuses a sum of two tensors if one is a batch norm's output that nothing else reads.
    void fuse(Operation& sum, const AddTensorsParams& p) {
        if (p.tensors != 2 || p.masked != 0) return;
        for (const std::size_t own : {0, 1}) {
            const TensorId x = id_of(p.x[own]);
            Operation* const before = maker_[x.index()];
            if (before == nullptr || readers_[x.index()].size() != 1) continue;
            auto norm = launched(*before, kernels::batch_norm_forward);
            if (!norm || norm->relu != 0 || norm->addend_used != 0) continue;
            norm->addend = p.x[1 - own];
            norm->addend_used = 1;
            norm->y = p.y;
            norm->relu = p.relu;
            // The batch norm takes the sum's place, after everything that makes the other tensor.
            sum.work = before->work;
            set(sum, *norm);
            sum.name = before->name;
            return drop(*before);
        }
    }

    /// If the operation launches the kernel, its gradient is that of the ReLU's output `y`; makes it write
    /// the masked gradient `dx` instead.
    template<class Params>
    bool mask(Operation& operation, KernelHandle<Params> kernel, TensorId y, TensorId dx) {
        auto p = launched(operation, kernel);
        if (!p || p->relu != 0 || id_of(p->x) != y) return false;
        p->dx = dx;
        p->relu = 1;
        set(operation, *p);
        maker_[dx.index()] = &operation;
        return true;
    }
    bool mask(Operation& operation, TensorId y, TensorId dx) {
        return mask(operation, kernels::conv2d_backward_data, y, dx) ||
               mask(operation, kernels::lrn_backward, y, dx) || mask_sum(operation, y, dx);
    }

    bool mask_sum(Operation& operation, TensorId y, TensorId dx) {
        auto p = launched(operation, kernels::add_tensors);
        if (!p || p->relu != 0 || p->masked != 0) return false;
        p->mask = y;
        p->masked = 1;
        p->y = dx;
        set(operation, *p);
        maker_[dx.index()] = &operation;
        return true;
    }

    /// Whether the operation launches this kernel as part of this batch norm's backward pass.
    template<class Params>
    static bool belongs(const Operation& operation, KernelHandle<Params> kernel,
                        const BatchNormForwardParams& norm) {
        const auto p = launched(operation, kernel);
        return p && id_of(p->mean) == id_of(norm.mean);
    }

    /// If the operation launches the kernel, makes it read `dy` and apply the mask itself.
    template<class Params>
    void mask_itself(Operation& operation, KernelHandle<Params> kernel, const BatchNormForwardParams& norm,
                     TensorId dy) {
        auto p = launched(operation, kernel);
        if (!p) return;
        p->dy = dy;
        p->gamma = norm.gamma;
        p->beta = norm.beta;
        p->gamma_used = norm.gamma_used;
        p->beta_used = norm.beta_used;
        p->relu = 1;
        set(operation, *p);
        readers_[dy.index()].push_back(&operation);
    }

    bool mask_in_batch_norm(TensorId y, TensorId dy, TensorId dx) {
        const Operation* const maker = maker_[y.index()];
        const auto norm = maker != nullptr ? launched(*maker, kernels::batch_norm_forward) : std::nullopt;
        if (!norm || norm->relu == 0 || norm->addend_used != 0) return false;
        const std::vector<Operation*>& readers = readers_[dx.index()];
        if (!std::ranges::all_of(readers, [&](const Operation* reader) {
                return belongs(*reader, kernels::batch_norm_backward_sums, *norm) ||
                       belongs(*reader, kernels::batch_norm_backward, *norm);
            }))
            return false;
        for (Operation* const reader : readers) {
            mask_itself(*reader, kernels::batch_norm_backward_sums, *norm, dy);
            mask_itself(*reader, kernels::batch_norm_backward, *norm, dy);
        }
        return true;
    }

    void fuse(Operation& relu, const ActivationBackwardParams& p) {
        const TensorId y = id_of(p.saved), dy = id_of(p.dy), dx = id_of(p.dx);
        if (mask_in_batch_norm(y, dy, dx)) return drop(relu);
        Operation* const before = maker_[dy.index()];
        if (before == nullptr || readers_[dy.index()].size() != 1) return;
        if (mask(*before, y, dx) || mask_before_pool(*before, y, dx)) drop(relu);
    }

    bool mask_before_pool(Operation& pool, TensorId y, TensorId dx) {
        auto backward = launched(pool, kernels::max_pool_backward);
        if (!backward) return false;
        const auto forward = launched(*maker_[id_of(backward->argmax).index()], kernels::max_pool_forward);
        const TensorId dy = id_of(backward->dy);
        Operation* const before = maker_[dy.index()];
        if (!forward || id_of(forward->x) != y || before == nullptr || readers_[dy.index()].size() != 1)
            return false;
        if (!mask(*before, id_of(forward->y), dy)) return false;
        backward->dx = dx;
        set(pool, *backward);
        maker_[dx.index()] = &pool;
        return true;
    }

    std::vector<Operation>& operations_;
    std::vector<Operation*> maker_; ///< the last operation that writes each tensor
    std::vector<std::vector<Operation*>> readers_;
};

} // namespace

void fuse(Plan& plan) { Fusion(plan).run(); }

} // namespace towers
