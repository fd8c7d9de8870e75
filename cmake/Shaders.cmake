# Makes from shaders/kernels.def and the .comp files beside it:
#   spirv.inc               every kernel's SPIR-V as an array of words, validated
#   plain_kernel_texts.inc  one #include for each kernel that is not tiled, for the host's compiler and nvcc
# and sets TILED_KERNELS to the names of the tiled kernels.
find_program(GLSLANG glslangValidator REQUIRED)
find_program(SPIRV_VAL spirv-val REQUIRED)

set(SHADERS_DIR ${CMAKE_SOURCE_DIR}/shaders)
set(SHADERS_OUT ${CMAKE_BINARY_DIR}/shaders)
file(MAKE_DIRECTORY ${SHADERS_OUT})
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${SHADERS_DIR}/kernels.def)

# Unlike file(GENERATE), this keeps an unchanged file's time.
function(write_if_changed path content)
  file(CONFIGURE OUTPUT ${path} CONTENT "${content}" @ONLY)
endfunction()

# Adds the command that compiles shaders/FILE.comp, after the given lines, to spirv_NAME in NAME.inc.
function(add_shader file name lines)
  set(entry ${SHADERS_OUT}/${name}.glsl)
  write_if_changed(${entry} "#version 460\n#extension GL_GOOGLE_include_directive : require\n${lines}\n#include \"${file}.comp\"\n")
  set(binary ${SHADERS_OUT}/${name}.spv)
  set(words ${SHADERS_OUT}/${name}.inc)
  set(compile ${GLSLANG} --quiet -V -S comp --target-env vulkan1.3 -I${SHADERS_DIR})
  add_custom_command(
    OUTPUT ${words}
    COMMAND ${compile} --depfile ${binary}.d -o ${binary} ${entry}
    COMMAND ${SPIRV_VAL} --target-env vulkan1.3 ${binary}
    COMMAND ${compile} --vn spirv_${name} -o ${words} ${entry}
    DEPENDS ${entry} ${SHADERS_DIR}/${file}.comp
    DEPFILE ${binary}.d
    COMMENT "SPIR-V of ${name}"
    VERBATIM)
  set(SHADER_OUTPUTS ${SHADER_OUTPUTS} ${words} PARENT_SCOPE)
  set(spirv_includes "${spirv_includes}#include \"${name}.inc\"\n" PARENT_SCOPE)
endfunction()

file(STRINGS ${SHADERS_DIR}/kernels.def lines REGEX "^TOWERS_(TILED_)?KERNEL")
set(SHADER_OUTPUTS)
set(TILED_KERNELS)
set(spirv_includes)
set(plain_includes)
foreach(line IN LISTS lines)
  string(REGEX MATCH "^TOWERS_(TILED_)?KERNEL\\(([a-z0-9_]+)" _ "${line}")
  set(tiled "${CMAKE_MATCH_1}")
  set(kernel ${CMAKE_MATCH_2})
  add_shader(${kernel} ${kernel} "#define TOWERS_GLSL")
  if(tiled)
    list(APPEND TILED_KERNELS ${kernel})
  else()
    string(APPEND plain_includes "#include \"shaders/${kernel}.comp\"\n")
  endif()
endforeach()
# Overrides for software drivers, by the rows of their tile.
foreach(kernel IN ITEMS conv2d_forward conv2d_backward_data conv2d_backward_weights)
  foreach(rows IN ITEMS 8 32)
    add_shader(software/${kernel} software_${kernel}_${rows} "#define TILE_ROWS ${rows}")
  endforeach()
endforeach()
write_if_changed(${SHADERS_OUT}/spirv.inc "${spirv_includes}")
write_if_changed(${SHADERS_OUT}/plain_kernel_texts.inc "${plain_includes}")
