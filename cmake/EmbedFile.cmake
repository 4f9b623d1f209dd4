# Writes a C file that defines a file's bytes and their number:
# cmake -DIN=data.json -DOUT=data.c -DNAME=symbol -DHEADER=declares/it.h -P EmbedFile.cmake
file(READ "${IN}" hex HEX)
string(LENGTH "${hex}" digits)
math(EXPR bytes "${digits} / 2")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," values "${hex}")
string(REGEX REPLACE "((0x[0-9a-f][0-9a-f],){16})" "\\1\n    " values "${values}")
file(WRITE "${OUT}" "#include \"${HEADER}\"\n\nconst unsigned char ${NAME}[] = {\n    ${values}\n};\nconst size_t ${NAME}_len = ${bytes};\n")
