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

// Over the lanes of a subgroup; half words, of which no subgroup has too many for a word
FUNCTION Wide wide_subgroup_sum(Wide x) {
    const uint low = subgroupAdd(x.low & 0xffffu);
    const uint middle = subgroupAdd(x.low >> 16u);
    Wide sum;
    sum.low = low;
    sum.high = subgroupAdd(x.high) + (middle >> 16u);
    return wide_plus(sum, middle << 16u);
}

#endif
