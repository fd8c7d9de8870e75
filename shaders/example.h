#ifndef TOWERS_SHADERS_EXAMPLE_H
#define TOWERS_SHADERS_EXAMPLE_H

// An example of a batch, as the host writes it: four words. Memory goes by the slot, what is random by record and
// epoch.
struct Example {
    uint slot; // where the device's records hold its image
    uint record, epoch, label;
};

FUNCTION Example example_at(In_u32x4 examples, uint i) {
    const uvec4 words = examples.at[i];
    Example example;
    example.slot = words.x;
    example.record = words.y;
    example.epoch = words.z;
    example.label = words.w;
    return example;
}

#endif
