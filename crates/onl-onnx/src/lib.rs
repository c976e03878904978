//! ONNX protobuf, external data, npy and TensorProto files.
