# CUDA's run-time library becomes part of the program, so packages bring its licence: from NVIDIA's toolkit, from one of
# Python's packages, or from packages of Debian's or NVIDIA's.
if(TOWERS_WITH_CUDA)
  set(toolkit ${CUDAToolkit_BIN_DIR}/..)
  file(GLOB licences ${toolkit}/EULA.txt ${toolkit}/dist-info/nvidia_cuda_runtime*/licenses/License.txt
    ${toolkit}/../../nvidia_cuda_runtime*/License.txt ${toolkit}/../../nvidia_cuda_runtime*/licenses/License.txt
    /usr/share/doc/cuda-cudart*/copyright /usr/share/doc/nvidia-cuda-toolkit/copyright)
  if(licences)
    list(GET licences 0 licence)
    install(FILES ${licence} DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME CUDA-EULA.txt)
    if(SKBUILD)
      install(FILES ${licence} DESTINATION ${SKBUILD_METADATA_DIR}/licenses RENAME CUDA-EULA.txt COMPONENT wheel)
    endif()
  endif()
endif()

# What `cpack -G DEB` makes of an installation: a package for the Debian on which the program was built.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The maintainers of towers <maintainers@towers.example.org>" CACHE STRING
  "Who answers for packages: a name and an address in <>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trainer of convolutional networks for CUDA, Vulkan and CPUs")
set(CPACK_PACKAGE_DESCRIPTION "towers trains convolutional networks on whatever compute devices a machine has,
all in one run: NVIDIA's through CUDA where the build has it, others through
Vulkan 1.3, and processors with oneDNN. Networks, data pipelines and schedules
are recipes in TOML; many are built in.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/debian_tree.cmake)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# The program opens Vulkan's loader at run time and works without it. The loader's package recommends Mesa's drivers.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libvulkan1 (>= 1.3)")
# So it opens an MPI, if a launcher has started it; debian_tree.cmake keeps the plugins' libraries from the dependencies.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "vulkan-validationlayers, openmpi-bin | mpich")
# Each Debian has its own libraries, so each needs its own package; the version says which.
set(system "")
if(EXISTS /etc/os-release)
  file(STRINGS /etc/os-release system REGEX "^(ID|VERSION_ID)=")
endif()
if(system MATCHES "ID=debian" AND system MATCHES "VERSION_ID=\"?([0-9]+)")
  set(CPACK_DEBIAN_PACKAGE_RELEASE "1~deb${CMAKE_MATCH_1}")
endif()
if(CMAKE_CROSSCOMPILING AND CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
endif()
include(CPack)
