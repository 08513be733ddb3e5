# nodespy alone: the binary and the C library that it was linked against, no shell, nothing else.
#
#   tools/image.sh [BINARY [TAG]]    puts the files together and builds it; needs no registry
FROM scratch
COPY . /
ENTRYPOINT ["/usr/bin/nodespy"]
CMD ["--help"]
