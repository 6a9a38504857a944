//! landfall-server
