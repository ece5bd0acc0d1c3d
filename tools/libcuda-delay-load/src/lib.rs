//! Delay-loads libcuda.
