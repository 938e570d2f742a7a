"""An attack on a whole fleet, over real ROS 2, and a judge who knows the rules."""
