# How interfaces are built beside ROS packages that come as Python wheels. CMake reads it after project(), and
# runs it at the end of the package.
cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL adapt_to_wheels)

function(adapt_to_wheels)
  include("${CMAKE_CURRENT_FUNCTION_LIST_DIR}/dead_paths.cmake")

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
