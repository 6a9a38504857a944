//! What the benchmarks need of this crate, and nobody else may use: a body, read.

use landfall_engine::Submission;

use crate::body;
use crate::problem::{Code, Problem};

/// Reads the body of `POST /api/v1/tx`.
pub fn submission(body: &[u8]) -> Result<Submission, Problem> {
    let value =
        body::strict_json(body).map_err(|error| Problem::new(Code::InvalidJson, error.to_string()))?;
    body::submission(value, None)
}
