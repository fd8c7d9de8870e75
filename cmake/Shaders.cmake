# Makes from shaders/kernels.def, shaders/tiles.def and the .comp files beside them:
#   spirv.inc               every kernel's SPIR-V as an array of words, validated
#   host_kernel_sources.inc and cuda_kernel_sources.inc  one #include for each kernel that is not tiled, for the host's
#                           compiler and for nvcc
#   tiled_kernel_sources.inc  TOWERS_TILED_SOURCE(source, rows, columns, invocations) for both sources of each tiled kernel, NAME
#                           and NAME_quads, and each of their tiles, whose SPIR-V is spirv_SOURCE_ROWS_COLUMNS
#   fragment_kernel_sources.inc  TOWERS_FRAGMENT_SOURCE(source, operands, rows, columns, invocations), likewise for
#                           NAME_fragments and each type of operands
#   fragment_codes.inc      TOWERS_FRAGMENT_CODE(name) for each SPIR-V of these, spirv_NAME, where NAME is
#                           SOURCE_OPERANDS_ROWS_COLUMNS or, with matrices of any size (VK_NV_cooperative_matrix2),
#                           SOURCE_of_any_size_OPERANDS_ROWS_COLUMNS. There are none if glslang does not know such matrices.
# and sets TILED_SOURCES to `kernel source operands rows columns invocations workgroups name` for each of the last two: the
# operands are fp32 where there is only one kind, a multiprocessor has at least so many workgroups, the name is of a file.
find_program(GLSLANG glslangValidator REQUIRED)
find_program(SPIRV_VAL spirv-val REQUIRED)
find_program(SPIRV_OPT spirv-opt REQUIRED)
set(TOWERS_FRAGMENT_SHADERS "" CACHE PATH
  "Folder with the SPIR-V of the sources by fragments, for glslang before 15.1: the folder shaders/fragments of another\
 build, by its target fragment_shaders")

set(SHADERS_DIR ${CMAKE_SOURCE_DIR}/shaders)
set(SHADERS_OUT ${CMAKE_BINARY_DIR}/shaders)
file(MAKE_DIRECTORY ${SHADERS_OUT})
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${SHADERS_DIR}/kernels.def ${SHADERS_DIR}/tiles.def)

# Unlike file(GENERATE), keeps the time of an unchanged file.
function(write_if_changed path content)
  file(CONFIGURE OUTPUT ${path} CONTENT "${content}" @ONLY)
endfunction()

# Whether glslang knows the matrices of the sources by fragments
write_if_changed(${SHADERS_OUT}/matrices.glsl "#version 460\n#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require\nvoid main() {}\n")
execute_process(COMMAND ${GLSLANG} --quiet -V -S comp --target-env vulkan1.3 -o ${SHADERS_OUT}/matrices.spv
  ${SHADERS_OUT}/matrices.glsl RESULT_VARIABLE glslang_result OUTPUT_QUIET ERROR_QUIET)
set(fragments_of_glsl FALSE)
if(glslang_result EQUAL 0)
  set(fragments_of_glsl TRUE)
elseif(NOT TOWERS_FRAGMENT_SHADERS)
  message(STATUS "Vulkan's matrix units are left out: glslang is older than 15.1")
endif()

# Adds the command that compiles shaders/FILE.comp, with the given lines in front, to the array spirv_NAME in NAME.inc, which
# may lie in a folder.
# Further arguments are spirv-opt's.
function(add_shader file name lines)
  get_filename_component(array ${name} NAME)
  set(entry ${SHADERS_OUT}/${name}.glsl)
  write_if_changed(${entry} "#version 460\n#extension GL_GOOGLE_include_directive : require\n${lines}\n#include \"${file}.comp\"\n")
  set(binary ${SHADERS_OUT}/${name}.spv)
  set(words ${SHADERS_OUT}/${name}.inc)
  set(optimization)
  if(ARGN)
    set(optimization COMMAND ${SPIRV_OPT} --target-env=vulkan1.3 ${ARGN} ${binary} -o ${binary})
  endif()
  add_custom_command(
    OUTPUT ${binary} ${words} # the first is the depfile's target
    COMMAND ${GLSLANG} --quiet -V -S comp --target-env vulkan1.3 -I${SHADERS_DIR} --depfile ${binary}.d -o ${binary}
      ${entry}
    ${optimization}
    COMMAND ${SPIRV_VAL} --target-env vulkan1.3 ${binary}
    COMMAND ${CMAKE_COMMAND} -DIN=${binary} -DNAME=spirv_${array} -DOUT=${words} -P ${CMAKE_SOURCE_DIR}/cmake/words.cmake
    DEPENDS ${entry} ${SHADERS_DIR}/${file}.comp ${CMAKE_SOURCE_DIR}/cmake/words.cmake
    DEPFILE ${binary}.d
    COMMENT "SPIR-V of ${name}"
    VERBATIM)
  set(SHADER_OUTPUTS ${SHADER_OUTPUTS} ${words} PARENT_SCOPE)
  set(spirv_includes "${spirv_includes}#include \"${name}.inc\"\n" PARENT_SCOPE)
endfunction()

# Likewise of a source by fragments, if there is a compiler or a file for it; Vulkan has no matrices of tf32.
function(add_fragment_shader file name operands lines)
  if(operands STREQUAL tf32 OR NOT (fragments_of_glsl OR TOWERS_FRAGMENT_SHADERS))
    return()
  endif()
  if(fragments_of_glsl)
    # The driver unrolls what depends on the matrices' shape.
    add_shader(${file} fragments/${name} "${lines}" --strip-debug)
  else()
    set(spirv_includes "${spirv_includes}#include \"${TOWERS_FRAGMENT_SHADERS}/${name}.inc\"\n")
  endif()
  set(SHADER_OUTPUTS ${SHADER_OUTPUTS} PARENT_SCOPE)
  set(spirv_includes "${spirv_includes}" PARENT_SCOPE)
  set(fragment_codes "${fragment_codes}TOWERS_FRAGMENT_CODE(${name})\n" PARENT_SCOPE)
endfunction()

file(STRINGS ${SHADERS_DIR}/kernels.def lines REGEX "^TOWERS_([A-Z]+_)?KERNEL")
file(STRINGS ${SHADERS_DIR}/tiles.def tiles REGEX "^TOWERS_(QUAD_)?TILE")
file(STRINGS ${SHADERS_DIR}/tiles.def fragment_tiles REGEX "^TOWERS_FRAGMENT_TILE")
file(GLOB software_sources CONFIGURE_DEPENDS ${SHADERS_DIR}/software/*.comp)
set(SHADER_OUTPUTS)
set(TILED_SOURCES)
set(spirv_includes)
set(host_includes)
set(cuda_includes)
set(tiled_texts)
set(fragment_texts)
set(fragment_codes)
foreach(line IN LISTS lines)
  string(REGEX MATCH "^TOWERS_([A-Z]+_)?KERNEL\\(([a-z0-9_]+)" _ "${line}")
  set(kind "${CMAKE_MATCH_1}")
  set(kernel ${CMAKE_MATCH_2})
  set(host_source ${kernel})
  if(kind STREQUAL "WORKGROUP_")
    if(${SHADERS_DIR}/software/${kernel}.comp IN_LIST software_sources)
      set(host_source software/${kernel})
    endif()
    add_shader(${host_source} ${kernel}_software "#define TOWERS_GLSL\n#define WORKGROUPS_ARE_SUBGROUPS")
  endif()
  if(kind STREQUAL "TILED_")
    foreach(tile IN LISTS tiles)
      string(REGEX MATCH "([0-9]+), ([0-9]+)(, ([0-9]+))?" _ "${tile}")
      set(rows ${CMAKE_MATCH_1})
      set(columns ${CMAKE_MATCH_2})
      set(source ${kernel})
      set(threads 256)
      set(optimize)
      if(CMAKE_MATCH_4)
        set(source ${kernel}_quads)
        set(threads ${CMAKE_MATCH_4})
        # Loops are unrolled and arrays become scalars here, not in the driver's compiler. The second round unrolls
        # loops around those of the first.
        set(optimize -Os -Os)
      endif()
      list(APPEND TILED_SOURCES
        "${kernel} ${source} fp32 ${rows} ${columns} ${threads} 2 ${source}_${rows}_${columns}")
      string(APPEND tiled_texts "TOWERS_TILED_SOURCE(${source}, ${rows}, ${columns}, ${threads})\n")
      add_shader(${source} ${source}_${rows}_${columns}
        "#define TOWERS_GLSL\n#define TILE_M ${rows}u\n#define TILE_N ${columns}u\n#define THREADS ${threads}u"
        ${optimize})
    endforeach()
    foreach(tile IN LISTS fragment_tiles)
      string(REGEX MATCH "([0-9]+), ([0-9]+), ([0-9]+), ([0-9]+)" _ "${tile}")
      foreach(operands IN ITEMS fp32 tf32 bf16 fp16)
        set(of_tile "${CMAKE_MATCH_1} ${CMAKE_MATCH_2} ${CMAKE_MATCH_3} ${CMAKE_MATCH_4}")
        set(name ${kernel}_fragments_${operands}_${CMAKE_MATCH_1}_${CMAKE_MATCH_2})
        list(APPEND TILED_SOURCES "${kernel} ${kernel}_fragments ${operands} ${of_tile} ${name}")
        foreach(of_any_size IN ITEMS "" _of_any_size)
          string(REPLACE _fragments_ _fragments${of_any_size}_ code ${name})
          set(defines "#define TOWERS_GLSL\n#define TILE_M ${CMAKE_MATCH_1}u\n#define TILE_N ${CMAKE_MATCH_2}u
#define THREADS ${CMAKE_MATCH_3}u\n#define OPERANDS_${operands}")
          if(of_any_size)
            string(APPEND defines "\n#define MATRICES_OF_ANY_SIZE")
          endif()
          add_fragment_shader(${kernel}_fragments ${code} ${operands} "${defines}")
        endforeach()
        string(APPEND fragment_texts "TOWERS_FRAGMENT_SOURCE(${kernel}_fragments, ${operands}, ${CMAKE_MATCH_1}, \
${CMAKE_MATCH_2}, ${CMAKE_MATCH_3})\n")
      endforeach()
    endforeach()
  else()
    add_shader(${kernel} ${kernel} "#define TOWERS_GLSL")
    string(APPEND host_includes "#include \"shaders/${host_source}.comp\"\n")
    string(APPEND cuda_includes "#include \"shaders/${kernel}.comp\"\n")
  endif()
endforeach()
# Overrides for software drivers, by the rows of their tile.
foreach(kernel IN ITEMS conv2d_forward conv2d_backward_data conv2d_backward_weights)
  foreach(rows IN ITEMS 8 32)
    add_shader(software/${kernel} software_${kernel}_${rows} "#define TILE_ROWS ${rows}")
  endforeach()
endforeach()
write_if_changed(${SHADERS_OUT}/spirv.inc "${spirv_includes}")
write_if_changed(${SHADERS_OUT}/host_kernel_sources.inc "${host_includes}")
write_if_changed(${SHADERS_OUT}/cuda_kernel_sources.inc "${cuda_includes}")
write_if_changed(${SHADERS_OUT}/tiled_kernel_sources.inc "${tiled_texts}")
write_if_changed(${SHADERS_OUT}/fragment_kernel_sources.inc "${fragment_texts}")
write_if_changed(${SHADERS_OUT}/fragment_codes.inc "${fragment_codes}")
set(fragment_outputs ${SHADER_OUTPUTS})
list(FILTER fragment_outputs INCLUDE REGEX /fragments/)
add_custom_target(fragment_shaders DEPENDS ${fragment_outputs})
