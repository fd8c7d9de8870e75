// Vulkan-Hpp as this backend uses it: designated initializers, the loader opened at run time.
#pragma once

#define VULKAN_HPP_NO_CONSTRUCTORS
#define VULKAN_HPP_DISPATCH_LOADER_DYNAMIC 1
#define VULKAN_HPP_NO_SPACESHIP_OPERATOR
#include <vulkan/vulkan_raii.hpp>
