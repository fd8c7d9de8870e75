// Every test program's main: doctest's, and a message from the Vulkan validation layer fails the run.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "tests/support/devices.h"

#include <cstdio>

int main(int argc, char** argv) {
    const int result = doctest::Context(argc, argv).run();
    towers::test::close_devices();
    if (towers::validation_messages() == 0) return result;
    std::fprintf(stderr, "the Vulkan validation layer sent %u messages\n", towers::validation_messages());
    return 1;
}
