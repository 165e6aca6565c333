"""What comes back: a run's result goes in, and what a reader of a certain kind should see of it comes out."""
