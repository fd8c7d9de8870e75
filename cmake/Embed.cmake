# embed_text(IN OUT): adds the command that turns a text file into a C++ string literal, to include where a string
# belongs.
function(embed_text in out)
  get_filename_component(name ${in} NAME)
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DIN=${in} -DOUT=${out} -P ${CMAKE_SOURCE_DIR}/cmake/embed_text.cmake
    DEPENDS ${in} ${CMAKE_SOURCE_DIR}/cmake/embed_text.cmake
    COMMENT "Embedding ${name}"
    VERBATIM)
endfunction()
