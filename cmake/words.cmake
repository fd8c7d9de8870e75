# Turns a file IN of 32-bit words, least significant byte first, into a C++ array NAME in OUT:
#   cmake -DIN=kernel.spv -DNAME=spirv_kernel -DOUT=kernel.inc -P words.cmake
file(READ ${IN} bytes HEX)
string(REGEX REPLACE "(..)(..)(..)(..)" "0x\\4\\3\\2\\1," words "${bytes}")
file(WRITE ${OUT} "const uint32_t ${NAME}[] = {${words}};\n")
