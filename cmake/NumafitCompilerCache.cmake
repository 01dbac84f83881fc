# ccache where it exists; never required. Included after project(), before the first target.
#
# Paths below the checkout are made relative before they are compared, so the same source is the
# same object in another checkout and in another build folder. What a file depends on is taken from
# the compiler's own list (ninja asks for it), which spares running the preprocessor once more.
# The sloppiness is what ccache wants for precompiled headers; nothing here uses __TIME__.
# These settings must hold for every compilation, whoever starts ninja, so they live in a small
# script. It is called ccache because clang's tools know by that name that the compiler is the next
# word.
find_program(NUMAFIT_CCACHE ccache)
mark_as_advanced(NUMAFIT_CCACHE)
if(NUMAFIT_CCACHE AND "${CMAKE_CXX_COMPILER_LAUNCHER}" MATCHES "^(ccache)?$")
  set(launcher ${CMAKE_BINARY_DIR}/launcher/ccache)
  file(CONFIGURE OUTPUT ${launcher} @ONLY CONTENT [=[#!/bin/sh
CCACHE_BASEDIR='@CMAKE_SOURCE_DIR@' CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros exec '@NUMAFIT_CCACHE@' "$@"
]=])
  file(CHMOD ${launcher} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
    GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()
