//! ONNX models on CPUs, tuned from measured evidence.
