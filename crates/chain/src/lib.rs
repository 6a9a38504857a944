//! landfall-chain
