// The main() of every test program: runs doctest, and fails if the Vulkan validation layer sent a message.
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
