"""A driver, a policy and a skill set for timely_llm_ros."""
