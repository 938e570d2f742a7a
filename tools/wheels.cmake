# What a build of interfaces needs beside ROS packages that come as Python wheels. CMake reads it after
# project(), and runs it at the end of the package.
cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL adapt_to_wheels)

function(adapt_to_wheels)
  # They export include paths of the machine that built them, and CMake refuses imported targets with dead
  # paths.
  get_property(imported_targets DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(target IN LISTS imported_targets)
    get_target_property(include_paths ${target} INTERFACE_INCLUDE_DIRECTORIES)
    if(include_paths MATCHES "/opt/python/cp")
      list(FILTER include_paths EXCLUDE REGEX "^/opt/python/cp")
      set_target_properties(${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${include_paths}")
    endif()
  endforeach()

  # Half of the time goes into headers that each generated file includes again. These may share them; C files
  # may not, whose static names are the same, nor C++ introspection, whose order matters.
  foreach(kind IN ITEMS typesupport_c typesupport_cpp typesupport_fastrtps_c typesupport_fastrtps_cpp)
    set_target_properties(${PROJECT_NAME}__rosidl_${kind} PROPERTIES
      UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  endforeach()

  # Only C++ nodes would use these, and here are none.
  foreach(kind IN ITEMS typesupport_cpp typesupport_fastrtps_cpp typesupport_introspection_cpp)
    target_compile_options(${PROJECT_NAME}__rosidl_${kind} PRIVATE -O0)
  endforeach()
endfunction()
