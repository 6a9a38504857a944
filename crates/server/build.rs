//! Makes the gRPC types and services from the proto file, without a `protoc` on the machine.

use std::path::PathBuf;

use prost::Message as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let described = protox::compile(["landfall/v1/landfall.proto"], ["proto"])?;
    // What the reflection service shows.
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("landfall.bin"), described.encode_to_vec())?;
    tonic_prost_build::configure().build_transport(false).compile_fds(described)?;
    Ok(())
}
