//! landfall-signer
