"""Small vision–language models with planted contamination: data, training, reading, ONNX export."""
