# Message packages that come as Python wheels export include paths of the machine that built them, and CMake
# refuses imported targets with dead paths. Elsewhere this finds nothing.
get_property(imported_targets DIRECTORY PROPERTY IMPORTED_TARGETS)
foreach(target IN LISTS imported_targets)
  get_target_property(include_paths ${target} INTERFACE_INCLUDE_DIRECTORIES)
  if(include_paths MATCHES "/opt/python/cp")
    list(FILTER include_paths EXCLUDE REGEX "^/opt/python/cp")
    set_target_properties(${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${include_paths}")
  endif()
endforeach()
