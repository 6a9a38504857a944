//! What the lane promises, held against a model world.

mod properties;
