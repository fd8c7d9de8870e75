# Finds the CUDA Toolkit; sets TOWERS_WITH_CUDA and TOWERS_NVCC_OPTIONS.
set(TOWERS_CUDA AUTO CACHE STRING
  "Build the CUDA backend: ON (for all cards), OFF, or AUTO (for the NVIDIA cards of this machine, if nvcc is here too)")
set_property(CACHE TOWERS_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT TOWERS_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "TOWERS_CUDA=${TOWERS_CUDA}: give AUTO, ON or OFF")
endif()

# Sets `found` to the compute capabilities of this machine's NVIDIA cards, such as 86;90; to "unknown" if there are
# cards but the driver does not tell; to "" without cards.
function(find_cards found)
  set(cards "")
  find_program(NVIDIA_SMI nvidia-smi PATHS /usr/lib/wsl/lib NO_CACHE)
  if(NVIDIA_SMI)
    # A faulty driver may not answer.
    execute_process(COMMAND ${NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader TIMEOUT 30
      OUTPUT_VARIABLE output ERROR_QUIET RESULT_VARIABLE code)
    if(code EQUAL 0)
      string(REGEX MATCHALL "[0-9]+\\.[0-9]" cards "${output}")
      list(TRANSFORM cards REPLACE "\\." "")
      list(REMOVE_DUPLICATES cards)
    endif()
  endif()
  file(GLOB listed /proc/driver/nvidia/gpus/* /dev/nvhost-gpu) # the driver's own list; Jetson's card
  if(NOT cards AND listed)
    set(cards unknown)
  endif()
  set(${found} "${cards}" PARENT_SCOPE)
endfunction()

# Sets `chosen` to the architectures for these cards: machine code for those that backend and nvcc support, PTX for
# those that nvcc does not know yet; "" if the cards are too old for the backend.
function(choose_architectures cards chosen)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-code OUTPUT_VARIABLE known)
  set(architectures "")
  foreach(card IN LISTS cards)
    if(card LESS 75)
      continue()
    elseif(known MATCHES "sm_${card}[^0-9]")
      list(APPEND architectures ${card})
    else()
      list(APPEND architectures 90-virtual)
    endif()
  endforeach()
  list(REMOVE_DUPLICATES architectures)
  set(${chosen} "${architectures}" PARENT_SCOPE)
endfunction()

set(TOWERS_WITH_CUDA OFF)
# Machine code from Turing to Hopper, and PTX for later cards
set(all_architectures 75-real 80-real 86-real 89-real 90)
set(user_chooses OFF)
# An empty value counts as not set.
if("${CMAKE_CUDA_ARCHITECTURES}" STREQUAL "" AND NOT "$ENV{CUDAARCHS}" STREQUAL "")
  set(CMAKE_CUDA_ARCHITECTURES "$ENV{CUDAARCHS}" CACHE STRING "CUDA architectures" FORCE)
endif()
if(NOT "${CMAKE_CUDA_ARCHITECTURES}" STREQUAL "")
  set(user_chooses ON)
endif()
set(cards unknown) # means all cards
if(TOWERS_CUDA STREQUAL "AUTO" AND NOT user_chooses)
  find_cards(cards)
endif()
if(TOWERS_CUDA STREQUAL "OFF")
  message(NOTICE "CUDA backend: left out, TOWERS_CUDA is OFF")
elseif(NOT cards)
  message(NOTICE "CUDA backend: left out, this machine shows no NVIDIA card; TOWERS_CUDA=ON in the environment of "
                 "quickstart.sh, or -DTOWERS_CUDA=ON, builds it for all cards")
else()
  if(CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
  endif()
  # Checks the version first, since an older nvcc makes enable_language() fail, and then whether nvcc works
  find_package(CUDAToolkit 12 QUIET)
  if(CUDAToolkit_FOUND)
    if(NOT CMAKE_CUDA_COMPILER)
      unset(CMAKE_CUDA_COMPILER CACHE) # clears an earlier attempt's "not found"
    endif()
    include(CheckLanguage)
    check_language(CUDA)
  endif()
  if(CUDAToolkit_FOUND AND CMAKE_CUDA_COMPILER)
    if(cards STREQUAL "unknown")
      set(architectures ${all_architectures})
    else()
      choose_architectures("${cards}" architectures)
    endif()
    if(architectures)
      if(NOT user_chooses)
        set(CMAKE_CUDA_ARCHITECTURES ${architectures})
      endif()
      enable_language(CUDA)
      set(CMAKE_CUDA_STANDARD 17) # the latest that CMake 3.25 supports with nvcc
      set(CMAKE_CUDA_STANDARD_REQUIRED ON)
      set(TOWERS_WITH_CUDA ON)
      list(JOIN CMAKE_CUDA_ARCHITECTURES " " shown)
      set(TOWERS_CUDA_ARCHITECTURES "${shown}" CACHE INTERNAL "What the CUDA backend is built for") # for pack.sh
      message(NOTICE "CUDA backend: built with nvcc ${CMAKE_CUDA_COMPILER_VERSION} for ${shown}")
    else()
      message(NOTICE "CUDA backend: left out, the NVIDIA cards of this machine have a compute capability below 7.5")
    endif()
  elseif(TOWERS_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TOWERS_CUDA=ON: found no working nvcc 12 or newer; put one on PATH, name it with "
                        "-DCMAKE_CUDA_COMPILER, or give -DTOWERS_CUDA=AUTO to build without CUDA")
  else()
    message(NOTICE "CUDA backend: left out, no working nvcc 12 or newer is on PATH")
  endif()
endif()

# No kernel may compute in double precision.
set(TOWERS_NVCC_OPTIONS -Xptxas=-warn-double-usage)
if(TOWERS_WERROR)
  list(APPEND TOWERS_NVCC_OPTIONS -Werror=all-warnings -Xptxas=-Werror)
endif()
