//! Tuning registry, resolution, calibration, profile cache and evidence.
