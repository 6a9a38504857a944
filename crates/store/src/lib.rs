//! landfall-store
