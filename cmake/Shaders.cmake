# Makes of shaders/kernels.def and the .comp files beside it:
#   spirv.inc               every kernel's SPIR-V as an array of words, validated
#   host_kernel_texts.inc   one #include for each kernel that the host compiler can read
find_program(GLSLANG glslangValidator REQUIRED)
find_program(SPIRV_VAL spirv-val REQUIRED)

set(SHADERS_DIR ${CMAKE_SOURCE_DIR}/shaders)
set(SHADERS_OUT ${CMAKE_BINARY_DIR}/shaders)
file(MAKE_DIRECTORY ${SHADERS_OUT})
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${SHADERS_DIR}/kernels.def)

# file(GENERATE) would do as well, but only this leaves an unchanged file's time alone.
function(write_if_changed path content)
  file(CONFIGURE OUTPUT ${path} CONTENT "${content}" @ONLY)
endfunction()

# Adds the command that compiles shaders/FILE.comp to spirv_VARIABLE in FILE.inc.
function(add_shader file variable)
  set(entry ${SHADERS_OUT}/${file}.glsl)
  write_if_changed(${entry} "#version 460\n#extension GL_GOOGLE_include_directive : require\n#define TOWERS_GLSL\n#include \"${file}.comp\"\n")
  set(binary ${SHADERS_OUT}/${file}.spv)
  set(words ${SHADERS_OUT}/${file}.inc)
  add_custom_command(
    OUTPUT ${words}
    COMMAND ${GLSLANG} --quiet -V -S comp --target-env vulkan1.3 -I${SHADERS_DIR} --depfile ${binary}.d -o ${binary} ${entry}
    COMMAND ${SPIRV_VAL} --target-env vulkan1.3 ${binary}
    COMMAND ${GLSLANG} --quiet -V -S comp --target-env vulkan1.3 -I${SHADERS_DIR} --vn spirv_${variable} -o ${words} ${entry}
    DEPENDS ${entry} ${SHADERS_DIR}/${file}.comp
    DEPFILE ${binary}.d
    COMMENT "SPIR-V of ${file}"
    VERBATIM)
endfunction()

file(STRINGS ${SHADERS_DIR}/kernels.def lines REGEX "^TOWERS_(TILED_)?KERNEL")
set(SHADER_OUTPUTS)
set(spirv_includes)
set(host_includes)
foreach(line IN LISTS lines)
  string(REGEX MATCH "^TOWERS_(TILED_)?KERNEL\\(([a-z0-9_]+)" _ "${line}")
  set(tiled "${CMAKE_MATCH_1}")
  set(kernel ${CMAKE_MATCH_2})
  add_shader(${kernel} ${kernel})
  list(APPEND SHADER_OUTPUTS ${SHADERS_OUT}/${kernel}.inc)
  string(APPEND spirv_includes "#include \"${kernel}.inc\"\n")
  if(NOT tiled)
    string(APPEND host_includes "#include \"shaders/${kernel}.comp\"\n")
  endif()
endforeach()
write_if_changed(${SHADERS_OUT}/spirv.inc "${spirv_includes}")
write_if_changed(${SHADERS_OUT}/host_kernel_texts.inc "${host_includes}")
