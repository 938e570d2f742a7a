"""The skill set's file."""
