"""How the embedded planner model is trained and evaluated."""
