//! A lane in memory.
