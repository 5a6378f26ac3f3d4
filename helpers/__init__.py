"""The tools behind the course "CPU or GPU?". Each module has one job; import the one you need."""
