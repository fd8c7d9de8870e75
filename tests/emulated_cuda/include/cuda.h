// Stands in for the CUDA Toolkit's cuda.h, in which GLM looks for the version.
#pragma once

#define CUDA_VERSION 13000
