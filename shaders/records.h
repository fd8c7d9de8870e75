#ifndef TOWERS_SHADERS_RECORDS_H
#define TOWERS_SHADERS_RECORDS_H

// Bytes of images that lie in slots, one slot after another, four bytes to a word. Their number may take more than
// 32 bits, the number of their words only 31, since SPIR-V's indices are signed: together they have less than
// 8 GiB.
struct RecordStart {
    uint word, byte;
};

FUNCTION RecordStart record_start(uint slot, uint record_bytes) {
    const uint low = slot * record_bytes;
    RecordStart start;
    start.word = mul_high(slot, record_bytes) << 30u | low >> 2u;
    start.byte = low & 3u;
    return start;
}

FUNCTION uint byte_at(In_u32 records, RecordStart start, uint i) {
    const uint at = start.byte + i;
    return records.at[start.word + (at >> 2u)] >> ((at & 3u) * 8u) & 255u;
}

#endif
