"""Judging an approximation: teacher-forced log-probabilities, and how far two runs are apart."""
