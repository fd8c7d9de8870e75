#include "engine/plan/fuse.h"

#include <optional>
#include <vector>

namespace towers {
namespace {

/// The parameter block of an operation that launches this kernel, else nothing.
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
          reads_(plan.tensors().size()) {
        for (Operation& operation : operations_)
            for (const Plan::Use& use : Plan::uses(operation))
                if (use.writes)
                    maker_[use.tensor.index()] = &operation;
                else
                    ++reads_[use.tensor.index()];
    }

    void run() {
        for (Operation& operation : operations_)
            if (const auto relu = launched(operation, kernels::relu_forward)) fuse(operation, *relu);
        for (Operation& operation : operations_)
            if (const auto relu = launched(operation, kernels::relu_backward)) fuse(operation, *relu);
        std::erase_if(operations_, [](const Operation& operation) { return operation.name.empty(); });
    }

private:
    static void drop(Operation& operation) { operation.name.clear(); }

    /// If the operation launches the kernel: makes `y`, the ReLU of what it made.
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
        if (before == nullptr || reads_[x.index()] != 1) return;
        if (activate(*before, kernels::conv2d_forward, y)) drop(relu);
    }

    /// If the operation launches the kernel, and so makes the gradient of its own `x`, which is the ReLU's
    /// output `y`: makes the masked gradient `dx` instead.
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
               mask(operation, kernels::lrn_backward, y, dx);
    }

    void fuse(Operation& relu, const ActivationBackwardParams& p) {
        const TensorId y = id_of(p.saved), dy = id_of(p.dy), dx = id_of(p.dx);
        Operation* const before = maker_[dy.index()];
        if (before == nullptr || reads_[dy.index()] != 1) return;
        if (mask(*before, y, dx) || mask_before_pool(*before, y, dx)) drop(relu);
    }

    bool mask_before_pool(Operation& pool, TensorId y, TensorId dx) {
        auto backward = launched(pool, kernels::max_pool_backward);
        if (!backward) return false;
        const auto forward = launched(*maker_[id_of(backward->argmax).index()], kernels::max_pool_forward);
        const TensorId dy = id_of(backward->dy);
        Operation* const before = maker_[dy.index()];
        if (!forward || id_of(forward->x) != y || before == nullptr || reads_[dy.index()] != 1) return false;
        if (!mask(*before, id_of(forward->y), dy)) return false;
        backward->dx = dx;
        set(pool, *backward);
        maker_[dx.index()] = &pool;
        return true;
    }

    std::vector<Operation>& operations_;
    std::vector<Operation*> maker_; ///< the last operation that writes each tensor
    std::vector<unsigned> reads_;   ///< how many operations read it
};

} // namespace

void fuse_relus(Plan& plan) { Fusion(plan).run(); }

} // namespace towers
