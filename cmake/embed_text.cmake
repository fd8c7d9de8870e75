# Turns a text file IN into a C++ string literal OUT, to include where a string belongs:
#   cmake -DIN=page.html -DOUT=page.html.inc -P embed_text.cmake
file(READ ${IN} text)
file(WRITE ${OUT} "R\"EMBEDDED(${text})EMBEDDED\"\n")
