// The main() of every test program: runs doctest, and fails if the Vulkan validation layer sent a message.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "tests/support/devices.h"

#include <cstdio>

int main(int argc, char** argv) {
    const int result = doctest::Context(argc, argv).run();
    towers::test::close_devices();
    const unsigned unexpected = towers::validation_messages() - towers::test::expected_validation_messages();
    if (unexpected == 0) return result;
    std::fprintf(stderr, "the Vulkan validation layer sent %u messages\n", unexpected);
    return 1;
}
