# CPack runs this between installing into a folder and packing it: what Debian's policy asks of a package's files.
set(share ${CPACK_TEMPORARY_DIRECTORY}/usr/share)
set(documents ${share}/doc/towers)
if(CPACK_DEBIAN_PACKAGE_ARCHITECTURE) # that of another processor; dpkg-shlibdeps looks for its libraries
  set(ENV{DEB_HOST_ARCH} ${CPACK_DEBIAN_PACKAGE_ARCHITECTURE})
endif()

# dpkg-shlibdeps, which CPack runs in this folder, finds here that the libraries of the plugins for MPIs need no package.
file(WRITE ${CPACK_TEMPORARY_DIRECTORY}/debian/shlibs.local "libmpi 40\nlibmpich 12\n")

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

if(EXISTS ${share}/zsh/site-functions) # Debian keeps that folder for files that no package brings
  file(RENAME ${share}/zsh/site-functions ${share}/zsh/vendor-completions)
endif()

if(EXISTS ${documents}/CUDA-EULA.txt)
  set(comment "Comment: The program contains NVIDIA's CUDA run-time library. Its licence is in CUDA-EULA.txt.\n")
endif()
file(WRITE ${documents}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: towers
Upstream-Contact: ${CPACK_PACKAGE_CONTACT}

Files: *
Copyright: 2026 the authors of towers
License: unstated
 The authors have not stated a licence. Ask them before you distribute this package.
${comment}")

set(version ${CPACK_PACKAGE_VERSION})
if(CPACK_DEBIAN_PACKAGE_RELEASE)
  string(APPEND version -${CPACK_DEBIAN_PACKAGE_RELEASE})
endif()
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # SOURCE_DATE_EPOCH, if it is set
file(WRITE ${documents}/changelog.Debian "towers (${version}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")

file(GLOB pages ${share}/man/man1/*.1)
run(gzip -9nf ${pages} ${documents}/changelog.Debian)
