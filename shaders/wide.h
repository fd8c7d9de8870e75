#ifndef TOWERS_SHADERS_WIDE_H
#define TOWERS_SHADERS_WIDE_H

// A whole number of 64 bits, in two words: sums that must be exact.
struct Wide {
    uint low, high;
};

FUNCTION Wide wide_zero() {
    Wide zero;
    zero.low = 0u;
    zero.high = 0u;
    return zero;
}

FUNCTION Wide wide_plus(Wide a, uint b) {
    Wide sum;
    sum.low = a.low + b;
    sum.high = a.high + (sum.low < b ? 1u : 0u);
    return sum;
}

// From sums of the low words' halves and of the high words: of as many numbers as a workgroup has invocations, the
// halves' fit into a word.
FUNCTION Wide wide_sum(uint low, uint middle, uint high) {
    Wide sum;
    sum.low = low;
    sum.high = high + (middle >> 16u);
    return wide_plus(sum, middle << 16u);
}

// Over the lanes of a subgroup
FUNCTION Wide wide_subgroup_sum(Wide x) {
    return wide_sum(subgroupAdd(x.low & 0xffffu), subgroupAdd(x.low >> 16u), subgroupAdd(x.high));
}

#endif
