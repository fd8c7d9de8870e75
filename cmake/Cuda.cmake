# The CUDA Toolkit, where there is one: sets TOWERS_WITH_CUDA and TOWERS_NVCC_OPTIONS.
set(TOWERS_CUDA AUTO CACHE STRING "Build the CUDA backend: ON, OFF, or AUTO where the CUDA Toolkit is found")
set_property(CACHE TOWERS_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT TOWERS_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "TOWERS_CUDA=${TOWERS_CUDA}: give AUTO, ON or OFF")
endif()

set(TOWERS_WITH_CUDA OFF)
if(NOT TOWERS_CUDA STREQUAL "OFF")
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    # Machine code from Turing to Hopper, and PTX for what follows
    set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90)
  endif()
  if(CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
  endif()
  # First the version, since an older nvcc makes enable_language() fail; then whether nvcc works
  find_package(CUDAToolkit 12 QUIET)
  if(CUDAToolkit_FOUND)
    if(NOT CMAKE_CUDA_COMPILER)
      unset(CMAKE_CUDA_COMPILER CACHE) # clears an earlier attempt's "not found"
    endif()
    include(CheckLanguage)
    check_language(CUDA)
  endif()
  if(CUDAToolkit_FOUND AND CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 17) # the latest that CMake 3.25 knows of nvcc
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(TOWERS_WITH_CUDA ON)
    message(NOTICE "CUDA backend: built with nvcc ${CMAKE_CUDA_COMPILER_VERSION}")
  elseif(TOWERS_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TOWERS_CUDA=ON: found no working nvcc 12 or newer; put one on PATH, name it with "
                        "-DCMAKE_CUDA_COMPILER, or give -DTOWERS_CUDA=AUTO to build without CUDA")
  else()
    message(NOTICE "CUDA backend: left out, no working nvcc 12 or newer is on PATH")
  endif()
else()
  message(NOTICE "CUDA backend: left out, TOWERS_CUDA is OFF")
endif()

# No kernel may compute in double precision.
set(TOWERS_NVCC_OPTIONS -Xptxas=-warn-double-usage)
if(TOWERS_WERROR)
  list(APPEND TOWERS_NVCC_OPTIONS -Werror=all-warnings -Xptxas=-Werror)
endif()
