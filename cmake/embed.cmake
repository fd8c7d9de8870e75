# Makes of a text file IN a C++ string literal OUT, to be included where a string stands:
#   cmake -DIN=page.html -DOUT=page.html.inc -P embed.cmake
file(READ ${IN} text)
file(WRITE ${OUT} "R\"EMBEDDED(${text})EMBEDDED\"\n")
