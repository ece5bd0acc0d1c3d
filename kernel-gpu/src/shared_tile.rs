//! Shared-memory tiles.
