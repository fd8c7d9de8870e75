# Writes a string literal that is another if any of the FILES is: cmake -DFILES=... -DOUTPUT=... -P checksum.cmake
set(checksums)
foreach(file IN LISTS FILES)
  file(SHA256 ${file} checksum)
  string(APPEND checksums ${checksum})
endforeach()
string(SHA256 checksum "${checksums}")
string(SUBSTRING ${checksum} 0 16 checksum)
file(WRITE ${OUTPUT} "\"${checksum}\"\n")
