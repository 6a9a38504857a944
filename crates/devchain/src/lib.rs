//! landfall-devchain
